"""A program that knows nothing but the OpenAPI document asks a live roost for everything in it.

No address answers with a defect, and every answer has a status, a type and a body that the document
describes, whatever is sent that fits its types, or does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from roost.store.home import Home
from roost.store.models.registry import ModelStore
from tests.store.gguf_writer import Typed, tiny
from tests.system.processes import Roost

pytestmark = pytest.mark.clients
CHECKS: list[object] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
EXAMPLES = 12
"""Of each address; more find nothing more that the types say."""


class Case(Protocol):
    """One request that was made from the types, as far as it is used here."""

    def call(self, *, timeout: float) -> object:
        """Send it."""
        ...

    def validate_response(self, response: object, *, checks: list[object]) -> None:
        """Hold an answer to the document."""
        ...


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One `roost serve` on the scripted backend for all addresses."""
    folder = tmp_path_factory.mktemp("clients")
    source = folder / "tiny.gguf"
    source.write_bytes(tiny(**{"llama.context_length": Typed("u32", 4096)}))
    home = folder / "home"
    ModelStore(Home.open(home)).add_file(source, link=False)
    flags = ("serve", "--port", "0", "--backend", "scripted")
    with Roost(folder / "roost.log", *flags, home=home) as roost:
        yield roost.url()


@pytest.mark.timeout(300)
def test_no_address_answers_otherwise_than_it_says(url: str) -> None:
    """Every operation, with bodies and parameters made from its types."""
    document = schemathesis.openapi.from_url(f"{url}/openapi.json")
    asked = 0
    for found in document.get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        @given(case=operation.as_strategy())
        def every(case: Case) -> None:
            case.validate_response(case.call(timeout=20), checks=CHECKS)

        every()
        asked += 1
    assert asked > 50
