"""MACHINE: chat templates of models, rendered in a sandbox that behaves like Hugging Face's.

A template comes out of a model file, so it is foreign code. The sandbox hands it plain data only,
lets it read attributes of a closed list of types, none that begins with an underscore, and caps
what it prints and multiplies. What a sandbox inside one process cannot cap, time and memory, is
capped by the process that runs this module; compiling needs that as well, because constants are
folded then.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping, Sequence

import msgspec
from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateError, TemplateSyntaxError
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Joiner, Namespace

from roost.errors import RoostError, fail
from roost.text.endings import THINK_MARKS
from roost.text.offers import CALL_MARKS

MESSAGE_CHARS_MAX = 300
TEMPLATE_CHARS_MAX = 256 * 1024
OUTPUT_CHARS_MAX = 64 * 1024 * 1024
PRODUCT_MAX = 1_000_000
"""The longest string or list a template may multiply, and the bits of the largest number."""

# Whatever else a template can reach, a function, a class, a generator, is not for looking into.
_OPEN_TYPES = (str, list, tuple, dict, LoopContext, Namespace, Cycler, Joiner)
_TOOLS = re.compile(r"{%[^%]*\btools\b")
# Some refuse them by name.
_NO_SYSTEM = re.compile(r"raise_exception\([^)]*[Ss]ystem")
_ANY_ROLE = re.compile(r"(?:[+~]|\{\{-?)\s*\w+(?:\.role|\[['\"]role['\"]\])")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")


class _TemplateOwnError(TemplateError):
    """The template called `raise_exception`: its message is meant for the caller."""


class _GenerationTag(Extension):
    """`{% generation %}…{% endgeneration %}` marks text for training; rendering prints its body."""

    tags = {"generation"}  # noqa: RUF012 - the base class declares it so

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Sandbox(ImmutableSandboxedEnvironment):
    """Data may be looked at, nothing may be looked into."""

    intercepted_binops = frozenset(("*", "**"))

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
        return isinstance(obj, _OPEN_TYPES) and super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: object, operator: str, left: object, right: object) -> object:
        if _product_size(operator, left, right) > PRODUCT_MAX:
            raise SecurityError("a product is too large")
        return super().call_binop(context, operator, left, right)  # type: ignore[arg-type]


def _product_size(operator: str, left: object, right: object) -> int:
    """Say how long the sequence, or how many bits the number, of this operation may become."""
    if isinstance(left, int) and isinstance(right, int):
        bits = max(1, left.bit_length())
        return bits * abs(right) if operator == "**" else bits + right.bit_length()
    if isinstance(left, int):
        left, right = right, left
    if isinstance(left, (str, list, tuple)) and isinstance(right, int):
        return len(left) * right
    return 0


def _raise_exception(message: object) -> None:
    raise _TemplateOwnError(str(message))


def _tojson(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - the order templates may rely on
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    """Encode like Hugging Face: readable characters, no HTML escapes."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _sandbox() -> _Sandbox:
    sandbox = _Sandbox(
        trim_blocks=True, lstrip_blocks=True, extensions=(LoopControlExtension, _GenerationTag)
    )
    sandbox.filters["tojson"] = _tojson
    sandbox.globals["raise_exception"] = _raise_exception
    # These roll dice, and a prompt has to come out the same every time.
    del sandbox.filters["random"]
    del sandbox.globals["lipsum"]
    return sandbox


class Traits(msgspec.Struct, frozen=True):
    """What a template knows, by its own text.

    `tools` is whether it tells the model of tools in the generic way, `system` whether it knows
    system messages, `think` the marks around its models' thoughts.
    """

    tools: bool = False
    system: bool = True
    think: tuple[str, str] | None = None


class Template:
    """A compiled template; made by `compile`."""

    def __init__(self, template: str, output_chars_max: int) -> None:
        self._template = _sandbox().from_string(template)
        self._output_chars_max = output_chars_max
        self.traits = Traits(
            tools=_TOOLS.search(template) is not None and CALL_MARKS[0] in template,
            system=_NO_SYSTEM.search(template) is None
            and ("system" in template or _ANY_ROLE.search(template) is not None),
            think=next((pair for pair in THINK_MARKS if pair[1] in template), None),
        )

    def render(
        self,
        messages: Sequence[object],
        *,
        names: Mapping[str, object],
        wishes: Mapping[str, object],
        today: str,
        tools: object = None,
    ) -> str:
        """Render messages and tools that are in the form templates expect.

        `names` are the model's own texts, `today` an ISO date or date and time. What `wishes` lacks
        is not defined for the template. Raises `bad_request` with the template's own message where
        the template refuses or fails.
        """
        values = {
            "messages": messages,
            "tools": tools,
            "add_generation_prompt": True,
            "documents": None,
            "strftime_now": dt.datetime.fromisoformat(today).strftime,
            **names,
            **wishes,
        }
        try:
            return self._printed(values)
        except Exception as error:  # noqa: BLE001 - foreign code may raise whatever it likes
            raise _refusal(error) from None

    def _printed(self, values: dict[str, object]) -> str:
        pieces, size = [], 0
        for piece in self._template.generate(values):
            pieces.append(piece)
            size += len(piece)
            if size > self._output_chars_max:
                raise SecurityError(f"it prints over {self._output_chars_max} characters")
        return "".join(pieces)


def compile(template: str, *, output_chars_max: int = OUTPUT_CHARS_MAX) -> Template:  # noqa: A001 - read as templates.compile
    """Compile a template of at most `TEMPLATE_CHARS_MAX` characters.

    Raises `unsupported` where it is too long or does not parse: the model cannot chat then, and no
    other request would help.
    """
    if len(template) > TEMPLATE_CHARS_MAX:
        raise fail("unsupported", "The model's chat template is too long.")
    try:
        return Template(template, output_chars_max)
    except Exception as error:  # noqa: BLE001 - recursion and folded constants raise anything
        raise fail(
            "unsupported", f"The model's chat template does not compile: {_reason(error)}"
        ) from None


def _refusal(error: Exception) -> RoostError:
    if isinstance(error, _TemplateOwnError):
        return fail("bad_request", _reason(error), param="messages")
    message = f"The model's chat template failed on these messages: {_reason(error)}"
    return fail("bad_request", message, param="messages")


def _reason(error: Exception) -> str:
    """Name what went wrong; Python's errors may quote the conversation, so only by their type."""
    if isinstance(error, TemplateSyntaxError):
        text = f"line {error.lineno}: {error.message or ''}"
    elif isinstance(error, TemplateError):
        text = error.message or "it gave no reason"
    else:
        text = type(error).__name__
    return _ADDRESS.sub("0x…", text)[:MESSAGE_CHARS_MAX]
