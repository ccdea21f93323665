"""What people point at a server like this one, each as its own program, on both kinds of model."""

from __future__ import annotations

import pytest

from tests.clients.conftest import HERE, Live, python_of, run
from tests.source import ROOT

JAVASCRIPT = ("openai", "anthropic", "vercel")
PYTHON = (
    ("current", "openai_sdk"),
    ("current", "anthropic_sdk"),
    ("older", "anthropic_sdk"),
    ("oldest", "openai_sdk"),
    ("oldest", "anthropic_sdk"),
    ("frameworks", "langchain"),
    ("frameworks", "litellm_sdk"),
    ("frameworks", "llamaindex"),
)
pytestmark = [pytest.mark.clients, pytest.mark.timeout(400)]


@pytest.mark.parametrize("program", JAVASCRIPT)
def test_javascript(program: str, live: Live) -> None:
    """It gets through, and whoever of it has left has left nothing."""
    run(live, "node", f"{program}.mjs", cwd=HERE / "js")


@pytest.mark.parametrize(("environment", "program"), PYTHON)
def test_python(environment: str, program: str, live: Live) -> None:
    """It gets through, and whoever of it has left has left nothing."""
    run(live, python_of(environment), "-m", f"tests.clients.programs.{program}", cwd=ROOT)
