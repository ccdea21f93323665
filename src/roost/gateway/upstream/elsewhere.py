"""SHELL: addresses that a gateway with nodes has and this one has not: who asks is told so."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from roost.errors import Failure

if TYPE_CHECKING:
    from roost.gateway.routes import Call, Routes

METHODS = "GET POST PUT DELETE"
APIS = {
    "/api/{rest}": "Ollama's API is",
    "/coordinator/{rest}": "System 1's API is",
    "/coordinator": "System 1's page is",
    "/stats": "System 1's page of figures is",
    "/v1/rerank": "Scores of documents are",
    "/v1/responses/{rest}": "Responses that are kept are",
    "/v1/messages/{rest}": "Counts of tokens are",
    "/v1/tokenize": "What becomes of prompts is",
    "/v1/detokenize": "What becomes of prompts is",
    "/v1/apply-template": "What becomes of prompts is",
    "/roost/v1/{rest}": "This is",
}
"""Open ends last of all that begin like them: the first that fits is taken."""


def add_to(routes: Routes) -> None:
    """Answer there, behind every route that there is."""
    for pattern, what in APIS.items():
        routes.add(METHODS, pattern, partial(_tell, what))


def _tell(what: str, call: Call) -> None:
    message = (
        f"{what} not to be had from `roost gateway --upstream`, which passes OpenAI's API and "
        "Anthropic's on to other servers: /openapi.json has every address. `roost serve`, and "
        "`roost gateway` with nodes, have it."
    )
    call.exchange.fail(Failure("not_found", message))
