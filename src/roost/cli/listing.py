"""WIRING: verbs that show one list of a running gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from roost.cli import options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Listing(NamedTuple):
    """A verb: `path` answers with an object that has the list as `part`.

    `told` writes one item, `nobody` is said where there is none.
    """

    verb: str
    description: str
    path: str
    part: str
    told: Callable[[Mapping[str, object]], str]
    nobody: str

    def run(self, arguments: list[str]) -> int:
        """Ask the gateway and print what it says."""
        parser = options.parser(self.verb, self.description, options.ASKS)
        parser.add_argument("--json", action="store_true", help="print the gateway's own JSON")
        parsed = parser.parse_args(arguments)
        from roost.cli.client import ask

        body = ask(options.load(parsed).settings, self.path)
        if parsed.json:
            options.print_json(body)
            return 0
        items = body[self.part]
        assert isinstance(items, list), f"{self.path} has a list of {self.part}"
        for item in items:
            print(self.told(item))
        if not items:
            print(self.nobody)
        return 0
