"""SHELL: what Ollama's clients ask for beside answers: the version, models, and what is loaded."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from roost import __version__
from roost.core.ids import ModelId
from roost.dialects.ollama.request import untagged
from roost.dialects.ollama.views import (
    Running,
    read_show,
    running_body,
    show_body,
    tags_body,
    version_body,
)
from roost.dialects.openai.errors import model_not_found
from roost.errors import RoostError
from roost.gateway.front.rendering import JSON_BODY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from roost.core.snapshots import ModelOffer
    from roost.gateway.mind import Mind
    from roost.gateway.routes import Call, Routes

_VERSION = version_body(__version__)


class OllamaViews:
    """Endpoints that read what nodes report; `listed` gives the models that a caller can ask."""

    def __init__(self, mind: Mind, listed: Callable[[Call], list[ModelOffer]]) -> None:
        self._mind = mind
        self._listed = listed

    def add_to(self, routes: Routes) -> None:
        """Put these endpoints into the table."""
        routes.add("GET", "/api/version", self.version)
        routes.add("GET", "/api/tags", self.tags)
        routes.add("GET", "/api/ps", self.running)
        routes.add("POST", "/api/show", self.show)

    def version(self, call: Call) -> None:
        """GET /api/version: which API this is."""
        call.exchange.reply(200, JSON_BODY, _VERSION)

    def tags(self, call: Call) -> None:
        """GET /api/tags: every model that can be asked."""
        call.exchange.reply(200, JSON_BODY, tags_body(self._listed(call)))

    def running(self, call: Call) -> None:
        """GET /api/ps: what is loaded somewhere, and until when."""
        call.exchange.reply(200, JSON_BODY, running_body(self._running(call), time.time()))

    def show(self, call: Call) -> None:
        """POST /api/show: one model."""
        try:
            name = read_show(call.exchange.take_body())
        except RoostError as error:
            call.exchange.fail(error.failure)
            return
        known = {offer.model: offer for offer in self._listed(call)}
        offer = known.get(ModelId(untagged(name, known)))
        if offer is None:
            call.exchange.fail(model_not_found(name))
        else:
            call.exchange.reply(200, JSON_BODY, show_body(offer))

    def _running(self, call: Call) -> Iterator[Running]:
        account, may_use = call.principal.account, self._mind.limiter.may_use
        for node in self._mind.coordinator.fleet():
            shown = (one for one in node.models if may_use(account, one.model))
            offers = {offer.model: offer for offer in shown if offer.serves == "all"}
            for view in node.runtimes:
                if view.state == "ready" and view.model in offers:
                    yield Running(offers[view.model], view)
