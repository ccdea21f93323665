"""What the pages for users tell people to type, set, send and ask is there, as it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from roost.config.table import TABLE
from roost.gateway.desk.addresses import ADDRESSES
from roost.node.worker.http import ROUTES as WORKER_ADDRESSES
from tests.commands import commands
from tests.source import ROOT

HISTORY = {"benchmarks.md", "capabilities.md", "checklist.md", "log.md"}
"""Pages that tell what was, in the words of then."""
README_LINES = 150

BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`([^`\n]+)`")
PROMPT = re.compile(r"^(?:\w*\$ +)?(?:[A-Z_]+=\S* )*(?:\.venv/bin/)?roost (?P<words>[a-z-].*)$")
COMMENT = re.compile(r"\s+#\s.*$")
FLAG = re.compile(r"--[a-z][a-z0-9-]+")
VARIABLE = re.compile(r"\bROOST_[A-Z_]*[A-Z]\b")
SETTING = re.compile(r"([a-z_]+)\.([a-z_]+|\*)")
HEADER = re.compile(r"`(x-roost-[a-z-]+)`")
ADDRESS = re.compile(r"(?:(?:GET|POST|DELETE) )?(?P<path>/(?:v1|api|roost|coordinator|worker)\b.*)")
OTHERS = {"--user": "curl", "--cacert": "curl", "--index-url": "pip", "--build": "docker"}
"""Flags of other programs."""

NO_SETTINGS = {"conversations.db", "runtime.placement"}
"""A file, and a promise: they are written as settings are."""


def pages() -> list[str]:
    """List the pages for users."""
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "GUARANTEES.md"]
    files += [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/guide").glob("*.md")]
    return sorted(f.relative_to(ROOT).as_posix() for f in files if f.name not in HISTORY)


def typed(text: str) -> Iterator[str]:
    """Find what a page says to type after `roost`, in blocks and in sentences."""
    lines = [line for block in BLOCK.findall(text) for line in block.splitlines()]
    spoken = INLINE.findall(BLOCK.sub("", text))
    for line in (*lines, *spoken):
        if found := PROMPT.match(COMMENT.sub("", line)):
            yield found["words"]


def faults(words: str) -> Iterator[str]:
    """Find what no command would take: a verb, a first word or a flag that does not exist."""
    own, _, given = words.partition(" -- ")
    verb, *rest = own.split()
    name = f"{verb} {rest.pop(0)}" if verb == "bench" and rest and rest[0].islower() else verb
    command = commands().get(name)
    if command is None:
        yield f"there is no `roost {name}`"
        return
    first = rest[0] if rest else ""
    if command.words and re.fullmatch(r"[a-z][a-z-]*", first) and first not in command.words:
        yield f"`roost {name}` knows no {first}"
    yield from (f"`roost {name}` has no {f}" for f in FLAG.findall(own) if f not in command.flags)
    if given:
        served = next((word for word in rest if word in {"gateway", "node"}), "serve")
        yield from faults(f"{served} {given}")


def read(path: str) -> str:
    """Read a page by its path from the root."""
    return (ROOT / path).read_text("utf-8")


def spoken(path: str) -> list[str]:
    """List what a page writes as code within its sentences and tables."""
    return INLINE.findall(BLOCK.sub("", read(path)))


@pytest.mark.parametrize("path", pages())
def test_every_command_is_one(path: str) -> None:
    """Each command line has a verb, a first word and flags that roost has."""
    assert [fault for words in typed(read(path)) for fault in faults(words)] == []


def test_what_is_no_command_is_found() -> None:
    """Verbs, first words and flags that are gone are found, behind `--` as well."""
    page = "`roost gone`\n```\nnode$ roost keys ad me   # x\nroost node --joyn URL\n```\n"
    assert list(typed(page)) == ["keys ad me", "node --joyn URL", "gone"]
    assert [fault for words in typed(page) for fault in faults(words)] == [
        "`roost keys` knows no ad",
        "`roost node` has no --joyn",
        "there is no `roost gone`",
    ]
    assert list(faults("service install -- --port 1 --gone")) == ["`roost serve` has no --gone"]
    assert list(faults("service install node -- --join URL")) == []
    assert list(faults("bench gone")) == ["there is no `roost bench gone`"]


# What these two say of flags is about servers and programs that roost starts.
@pytest.mark.parametrize("path", sorted({*pages()} - {"docs/servers.md", "docs/runners.md"}))
def test_every_flag_is_one(path: str) -> None:
    """A flag that stands alone is a flag of some command of roost, or of a known other program."""
    known = {*OTHERS, *(flag for command in commands().values() for flag in command.flags)}
    named = {f for code in spoken(path) if code.startswith("-") for f in FLAG.findall(code)}
    assert named - known == set()


# That page has system 1's names of events, which are written as settings are.
@pytest.mark.parametrize("path", sorted({*pages()} - {"docs/observe.md"}))
def test_every_setting_is_one(path: str) -> None:
    """Variables, and settings that are named with their group, are in the table."""
    variables = {f"ROOST_{row.attribute.upper()}" for row in TABLE}
    variables |= {alias for row in TABLE for alias in row.aliases}
    assert {*VARIABLE.findall(read(path))} - variables == set()
    names = {row.name for row in TABLE}
    groups = {name.partition(".")[0] for name in names if "." in name}
    pairs = [found.groups() for code in spoken(path) if (found := SETTING.fullmatch(code))]
    told = {f"{group}.{name}" for group, name in pairs if group in groups and name != "*"}
    assert told - names - NO_SETTINGS == set()


def test_every_header_is_one() -> None:
    """Headers that a page names are in the gateway's code, and those of the code on a page."""
    code = "".join(file.read_text("utf-8") for file in (ROOT / "src/roost/gateway").rglob("*.py"))
    written = set(re.findall(r"\bx-roost(?:-[a-z]+)+", code))
    # A reply's headers have the names of its facts; times of single phases are for bodies alone.
    facts = {fact for fact in re.findall(r'\bknown\["(\w+)"\]', code) if fact[-3:] != "_ns"}
    told = {f"x-roost-{fact.replace('_', '-')}" for fact in facts}
    assert {header for path in pages() for header in HEADER.findall(read(path))} == written | told


@pytest.mark.parametrize("path", pages())
def test_every_address_is_one(path: str) -> None:
    """Addresses are served, or are where several begin; words in capitals stand for a part."""
    known = [address.path.split("/") for address in ADDRESSES]
    known += [address.split("/") for address in (*WORKER_ADDRESSES, "/worker/sessions/{id}")]
    named = [found["path"] for code in spoken(path) if (found := ADDRESS.fullmatch(code))]
    lost = [path for path in named if not any(_begins(path, parts) for parts in known)]
    assert lost == []


def _begins(path: str, parts: list[str]) -> bool:
    """Say whether an address is where `path` leads, or lies below it."""
    asked = re.split(r"[?`]", path)[0].rstrip("/").split("/")
    return len(asked) <= len(parts) and all(
        one == part or part.startswith("{") for one, part in zip(asked, parts, strict=False)
    )


def test_the_first_page_is_short_and_leads_to_every_page() -> None:
    """The README is one sitting, and no page of the guide is left out of it."""
    text = read("README.md")
    assert len(text.splitlines()) <= README_LINES
    guide = [path for path in pages() if path.startswith("docs/guide/")]
    assert guide
    assert [path for path in guide if f"]({path})" not in text] == []
