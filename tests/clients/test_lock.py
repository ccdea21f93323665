"""What `make test-clients` installs of others is named exactly, by hash, and from no address."""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = Path(__file__).parent


def test_the_lock_file_names_hashes_and_no_hosts() -> None:
    """Whoever installs it asks the registry that is set up there, and gets these very files."""
    lock = json.loads((FOLDER / "js" / "package-lock.json").read_text())
    wanted = json.loads((FOLDER / "js" / "package.json").read_text())["dependencies"]
    packages = {name: one for name, one in lock["packages"].items() if name}
    assert lock["packages"][""]["dependencies"] == wanted
    assert all(one["integrity"].startswith("sha512-") for one in packages.values())
    assert not [name for name, one in packages.items() if "resolved" in one]
    assert {name: packages[f"node_modules/{name}"]["version"] for name in wanted} == wanted


def test_python_programs_are_named_exactly() -> None:
    """Every line is a comment, or one version of one package."""
    for path in FOLDER.glob("*.txt"):
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        assert lines
        assert all(line.count("==") == 1 and " " not in line for line in lines), path.name
