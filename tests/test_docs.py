"""Documents that can be checked are checked: commands, links, proofs, reference pages, versions."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import roost
from tests.reference import PAGES
from tests.source import ROOT, sources

# Whoever is first reads the whole source, beside whatever else runs on the machine.
pytestmark = pytest.mark.timeout(300)
CHECKLIST = re.compile(r"^- \[(?P<mark>[ x])\] (?P<id>\w+) .* — proof:(?P<proof>.*)$")
GUARANTEE = re.compile(r"^- .+ — (?P<proof>\S+)$")
LINK = re.compile(r"\]\((?!https?:|mailto:)(?P<target>[^)#\s]*)(?:#(?P<place>[^)\s]+))?\)")
PROOF = re.compile(r"(?:tests|docs)/[\w/.-]+(?:::\w+)?")
SECTIONS = ("Context", "Decision", "Consequences")


def read(path: str) -> str:
    """Read a document by its path from the root."""
    return (ROOT / path).read_text("utf-8")


@cache
def known_tests() -> frozenset[str]:
    """List every test as `tests/room/test_x.py::test_name`; once, as every promise asks for it."""
    return frozenset(
        f"{source.path}::{node.name}"
        for source in sources()
        if not source.shipped
        for node in source.nodes
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name[:5] == "test_"
    )


def missing_proofs(text: str) -> Iterator[str]:
    """Find named tests and documents that do not exist."""
    known = known_tests()
    for proof in PROOF.findall(text):
        if proof not in known and ("::" in proof or not (ROOT / proof).is_file()):
            yield f"{proof} does not exist"


def unproved_ticks(text: str) -> Iterator[str]:
    """Find ticks without a proof, proofs that do not exist, and lines that are no items at all."""
    for line in (line for line in text.splitlines() if line.startswith("- [")):
        item = CHECKLIST.match(line)
        if not item:
            yield f"no id or no proof: {line[:60]}"
            continue
        if item["mark"] == "x" and not PROOF.search(item["proof"]):
            yield f"{item['id']} is ticked without a proof"
        yield from missing_proofs(item["proof"])


def unproved_guarantees(text: str) -> Iterator[str]:
    """Find promises whose last word is not a test that exists."""
    for line in (line for line in text.splitlines() if line.startswith("- ")):
        promise = GUARANTEE.match(line)
        if not promise or promise["proof"] not in known_tests():
            yield f"no test: {line}"


def places(text: str) -> frozenset[str]:
    """List the places of a document that a link can name: its headings, as they are shown."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    bare = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return frozenset(heading.replace(" ", "-") for heading in bare)


def broken_links(path: str) -> Iterator[str]:
    """Find relative links to files, or to headings in documents, that do not exist."""
    here = ROOT / path
    for link in LINK.finditer(read(path)):
        there = here.parent / link["target"] if link["target"] else here
        if not there.exists():
            yield f"{path} links to {link['target']}, which does not exist"
        elif link["place"] and link["place"] not in places(there.read_text("utf-8")):
            yield f"{path} links to {link['target']}#{link['place']}, which has no such heading"


def documents() -> list[str]:
    """List the Markdown files that belong to the project."""
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.md")]
    return sorted(path.relative_to(ROOT).as_posix() for path in files)


def make_targets(text: str) -> set[str]:
    """List the targets that a Makefile explains."""
    return set(re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE))


def test_readme_shows_the_two_commands() -> None:
    """A stranger finds how to try roost and how to test it, and what has to be there before."""
    text = read("README.md")
    for words in ("make demo", "make test", "python3-venv"):
        assert words in text


@pytest.mark.parametrize("path", documents())
def test_make_commands_in_documents_exist(path: str) -> None:
    """No document names a `make` target that the Makefile lacks."""
    named = set(re.findall(r"^make ([a-z-]+)|`make ([a-z-]+)`", read(path), re.MULTILINE))
    assert {first or second for first, second in named} <= make_targets(read("Makefile"))


def files_that_are_not(text: str) -> list[str]:
    """List the Python files named in a text that exist neither in the project nor in roost."""
    named = sorted(set(re.findall(r"`([\w/]+/\w+\.py)`", text)))
    return [n for n in named if not any((top / n).is_file() for top in (ROOT, ROOT / "src/roost"))]


@pytest.mark.parametrize("path", documents())
def test_python_files_in_documents_exist(path: str) -> None:
    """A reading order, or a recipe, names only files that are there."""
    assert files_that_are_not(read(path)) == []


def test_python_files_that_are_not_there_are_found() -> None:
    """Paths count from the project's root or from the package."""
    text = "`core/events.py`, `src/roost/errors.py`, `core/nothing.py`"
    assert files_that_are_not(text) == ["core/nothing.py"]


def test_the_tests_of_the_law_exist() -> None:
    """The page about many models names fifteen tests by number, and all that it names are there."""
    text = read("docs/concurrency.md")
    assert list(missing_proofs(text)) == []
    rows = re.findall(r"^\| (\d+) \|.*`tests/\S+::test_", text, re.MULTILINE)
    assert rows == [str(number) for number in range(1, 16)]


@pytest.mark.parametrize("path", sorted((ROOT / "src/roost").glob("*/README.md")))
def test_a_rooms_own_document_names_all_its_modules(path: Path) -> None:
    """The table has a line for every module of the room, and none for modules that are gone."""
    rows = re.findall(r"^\| (`.+?) \|", path.read_text("utf-8"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([\w/]+)`", row)}
    files = (file for file in path.parent.rglob("*.py") if file.stem != "__init__")
    there = {file.relative_to(path.parent).with_suffix("").as_posix() for file in files}
    assert named == there


def test_the_parts_of_rooms_are_named_with_what_they_say_of_themselves() -> None:
    """The table of parts has a row for every package within a room, in that package's words."""
    packages = sorted((ROOT / "src/roost").glob("*/*/__init__.py"))
    parts = {file.parent.relative_to(ROOT / "src/roost").as_posix(): file for file in packages}
    rows = dict(re.findall(r"^\| `(\w+/\w+)` \| (.+) \|$", read("ARCHITECTURE.md"), re.MULTILINE))
    assert rows.keys() == parts.keys()
    other = {
        part: rows[part]
        for part, file in parts.items()
        if f": {rows[part]}." not in file.read_text()
    }
    assert other == {}


@pytest.mark.parametrize("path", documents())
def test_links_lead_somewhere(path: str) -> None:
    """Every relative link in a document leads to a file, and to a heading where it names one."""
    assert list(broken_links(path)) == []


def test_a_heading_is_a_place() -> None:
    """Headings are named in small letters, with hyphens, and without other signs."""
    assert places("# A (b) `c`\n\n## How verbs end\n") == {"a-b-c", "how-verbs-end"}


@pytest.mark.parametrize("path", PAGES)
def test_reference_page_is_what_the_code_says(path: str) -> None:
    """The page is as `make docs` would write it now."""
    page: Callable[[], str] = PAGES[path]
    assert read(path) == page(), "run `make docs`"


def test_decisions_say_why_and_what_follows() -> None:
    """Every record has a number of its own, and says context, decision and consequences."""
    records = sorted((ROOT / "docs/decisions").glob("*.md"))
    assert records
    numbers = [record.name[:4] for record in records]
    assert all(number.isdigit() for number in numbers)
    assert len(set(numbers)) == len(numbers)
    for record in records:
        headings = re.findall(r"^## (\w+)", record.read_text("utf-8"), re.MULTILINE)
        assert [h for h in headings if h in SECTIONS] == list(SECTIONS), record.name


def test_changelog_begins_with_this_version() -> None:
    """The newest entry is the version the package says it has, which pyproject takes from it."""
    newest = re.search(r"^## (\S+)", read("CHANGELOG.md"), re.MULTILINE)
    assert newest
    assert newest[1] == roost.__version__
    assert tomllib.loads(read("pyproject.toml"))["project"]["dynamic"] == ["version"]


def test_guarantees_are_proved() -> None:
    """Every promise names a test that exists, and there is at least one."""
    text = read("GUARANTEES.md")
    assert "\n- " in text
    assert list(unproved_guarantees(text)) == []


def test_checklist_is_complete_and_ticks_are_proved() -> None:
    """The 102 items and the 22 beyond are there, and a ticked one names a proof that exists."""
    text = read("docs/checklist.md")
    assert list(unproved_ticks(text)) == []
    items = [CHECKLIST.match(line) for line in text.splitlines() if line.startswith("- [")]
    ids = [item["id"] for item in items if item]
    assert len(ids) == len(set(ids))
    beyond = [i for i in ids if i.startswith("X")]
    assert len(ids) - len(beyond) == 102
    assert {i.rstrip("ab") for i in beyond} == {f"X{number}" for number in range(1, 23)}


def test_missing_proofs_are_found() -> None:
    """A promise or a tick without a test, or with one that does not exist, is found."""
    here = "tests/test_docs.py::test_missing_proofs_are_found"
    assert list(unproved_guarantees(f"- It works — {here}\n")) == []
    assert list(unproved_guarantees("- It works — tests/x.py::test_y\n")) != []
    assert list(unproved_guarantees("- It works\n")) != []
    assert list(unproved_ticks(f"- [x] A1 Works — proof: {here}\n- [ ] A2 Later — proof:\n")) == []
    assert list(unproved_ticks("- [x] A1 Works — proof: docs/settings.md\n")) == []
    assert list(unproved_ticks("- [x] A1 Works — proof: surely\n")) != []
    assert list(unproved_ticks(f"- [x] A1 Works — proof: {here}_not\n")) != []
    assert list(unproved_ticks(f"- [ ] A1 Works — proof: partly: {here}_not\n")) != []
    assert list(unproved_ticks("- [x] Works\n")) != []
