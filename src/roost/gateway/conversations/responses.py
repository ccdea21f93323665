"""SHELL: responses that can be asked for again, gone on from, and made in the background.

A response is kept before its client hears the end, so whoever was told of it finds it. One in the
background goes on without anybody: its events are kept for whoever reads them, from any of them on.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from roost.core.events import Delta, StreamEvent
from roost.core.ids import RequestId
from roost.core.response import KeptResponse
from roost.dialects.responses.items import as_items
from roost.dialects.responses.reply import ResponseBody
from roost.dialects.responses.request import own
from roost.dialects.responses.response import ID_PREFIX, Status, failed, response_of, spoken
from roost.errors import Failure, RoostError
from roost.gateway.front.rendering import JSON_BODY
from roost.gateway.replay.reel import Reel

if TYPE_CHECKING:
    from collections.abc import Callable

    from roost.core.ids import TenantId
    from roost.core.request import GenerateRequest, Message
    from roost.dialects.openai.choice import Choice
    from roost.dialects.wishes import Wishes
    from roost.gateway.conversations.archive import Archive
    from roost.gateway.mind import Mind
    from roost.gateway.replay.reattach import Reattach
    from roost.gateway.routes import Call, Routes
    from roost.gateway.turns.turn import Turn

ROOT = "/v1/responses"
CANCEL, ITEMS = "/cancel", "/input_items"
BACKGROUND_S = 900.0
"""For so long after the last reader has left, a background response goes on and can be read."""

NO_RESPONSE = Failure("not_found", "No response of this id is kept here.")
NO_PREVIOUS = Failure(
    "bad_request",
    "The response that this one goes on from is not kept here, or what it went on from is not. "
    "Send the whole conversation as 'input'.",
    "previous_response_id",
)
NOT_OVER = Failure(
    "bad_request",
    "The response that this one goes on from still runs in the background. Wait for its end.",
    "previous_response_id",
)
LOST = Failure("internal", "The gateway ended before this response was complete. Ask for it again.")
NOT_RUNNING = Failure(
    "bad_request", "Only a response that runs in the background can be cancelled, and it is over."
)
NOT_KEPT = Failure(
    "unsupported",
    "Nothing is kept here (`transcripts.keep` is off), and a response in the background has to be.",
    "background",
)
NO_ROOM = Failure(
    "overloaded", "No more responses can be made in the background now.", retry_after_s=5
)
_encode = msgspec.json.Encoder().encode


class Kept:
    """Keeps what one turn of a response says; the turn's keeper."""

    def __init__(
        self, responses: Responses, tenant: TenantId, choice: Choice, request: GenerateRequest
    ) -> None:
        self._responses = responses
        self._tenant = tenant
        self._choice = choice
        self._request = request
        self.settled = False
        self.unwanted = False

    @property
    def wishes(self) -> Wishes:
        """What is asked of it beside its text."""
        wishes = self._choice.options.wishes
        assert wishes is not None, "every response has wishes"
        return wishes

    def in_state(self, status: Status) -> bytes:
        """Tell it as it is before its end."""
        return _encode(response_of(self._choice, status, []))

    def lost(self) -> KeptResponse:
        """Make what is found of one in the background should the gateway end before it."""
        return self._kept((), _encode(failed(self._choice, LOST, [])))

    def asked(self) -> tuple[Message, ...]:
        """What was said to the model by this request."""
        return own(self._request, self.wishes)

    def seal(self, turn: Turn) -> None:
        """The answer is whole: keep it, then the client hears the end."""
        body = None if self.unwanted else self._body(turn)
        if body is None:
            turn.on_sealed()
            return
        self.settled = True
        output = msgspec.json.decode(body, type=_Output).output
        self._responses.keep(self._kept(spoken(output), body), turn.on_sealed)

    def over(self, turn: Turn) -> None:
        """It has ended, however it did: one in the background is told of afterwards as well."""
        self._responses.ended(self)
        if self.settled or self.unwanted or not self.wishes.background:
            return
        failure = turn.ended_by or Failure("internal", "The response ended without an answer.")
        told = failed(self._choice, failure, [])
        if failure.reason == "cancelled":
            told |= {"status": "cancelled", "error": None}
        self._responses.keep(self._kept((), _encode(told)), lambda _: None)

    def _body(self, turn: Turn) -> bytes | None:
        """Make the body of the whole answer; None for one that cannot be used."""
        if turn.started is None or turn.finished is None:
            return None
        finished = msgspec.structs.replace(turn.finished, usage=turn.spent)
        events: list[StreamEvent] = [turn.started, Delta(turn.answer), finished]
        voice = ResponseBody(self._choice)
        try:
            return b"".join(map(voice.event, events))
        except RoostError:
            return None

    def _kept(self, answered: tuple[Message, ...], body: bytes) -> KeptResponse:
        told = self._choice.reply_id, self._tenant, self.wishes.previous, self.asked()
        return KeptResponse(*told, answered, body, time.time())


class _Output(msgspec.Struct):
    output: list[dict[str, object]]


class Responses:
    """The endpoints of responses that exist, and the keeping of them."""

    def __init__(self, mind: Mind, archive: Archive, reattach: Reattach) -> None:
        self._mind = mind
        self._archive = archive
        self._reattach = reattach
        self._running: dict[tuple[TenantId, str], Kept] = {}

    def add_to(self, routes: Routes) -> None:
        """Put these endpoints into the table."""
        routes.add("GET", ROOT + "/{rest}", self.get)
        routes.add("DELETE", ROOT + "/{rest}", self.delete)
        routes.add("POST", ROOT + "/{rest}", self.cancel)

    def recall(
        self, call: Call, previous: str, then: Callable[[tuple[Message, ...] | Failure], None]
    ) -> None:
        """Look up what was said before a response that goes on from another one."""

        def found(said: object) -> None:
            # Contained as the front contains what answers at once: a defect is told and logged.
            call.exchange.answer(lambda _: then(_messages(said)))

        if (call.tenant, previous) in self._running:
            then(NOT_OVER)
        else:
            self._archive.said_before(call.tenant, previous, found)

    def granted(self, wishes: Wishes) -> Wishes:
        """Return what is done of what is wished; raises `unsupported` for what cannot be."""
        if self._archive.keeps:
            return wishes
        if wishes.background:
            raise RoostError(NOT_KEPT)
        return msgspec.structs.replace(wishes, keep=False)

    def keeper(self, call: Call, choice: Choice, request: GenerateRequest) -> Kept:
        """Make the keeper of a turn that begins now; `request` has no words of others in it."""
        kept = Kept(self, call.tenant, choice, request)
        if kept.wishes.background:
            self._running[call.tenant, choice.reply_id] = kept
            if choice.options.stream:
                self.keep(kept.lost(), lambda _: None)
        return kept

    def leave(self, call: Call, kept: Kept) -> bool:
        """Answer the call of a response that nobody waits for; False where it cannot be left."""
        exchange, reel = call.exchange, call.exchange.watcher
        if not isinstance(reel, Reel):
            exchange.fail(NO_ROOM)
            self.ended(kept)
            return False
        exchange.watcher = None
        reel.on_gone()
        body = kept.in_state("queued")

        def told(failure: Failure | None) -> None:
            if failure is not None:
                # Nobody could find it by the id that it would have been told.
                exchange.answer(lambda exchange: exchange.fail(failure))
            else:
                exchange.answer(lambda exchange: exchange.reply(200, JSON_BODY, body))

        self.keep(kept.lost(), told)
        return True

    def keep(self, kept: KeptResponse, done: Callable[[Failure | None], None]) -> None:
        """Keep a response; `done` is told why that could not be, or None."""
        self._archive.keep_response(kept, done)

    def ended(self, kept: Kept) -> None:
        """A turn is over."""
        self._running = {key: one for key, one in self._running.items() if one is not kept}

    # --- the endpoints

    def get(self, call: Call) -> None:
        """GET /v1/responses/{id}, …/input_items; with `stream=true`, its events from some on."""
        name = call.rest.removesuffix(ITEMS)
        query = dict(part.partition("=")[::2] for part in _query(call).split("&"))
        if query.get("stream") == "true" and name == call.rest:
            self._stream(call, name, query.get("starting_after", ""))
            return
        as_list = name != call.rest
        running = self._running.get((call.tenant, name))
        if running is not None:
            body = _listed(running.asked()) if as_list else running.in_state("in_progress")
            call.exchange.reply(200, JSON_BODY, body)
            return

        def found(kept: object) -> None:
            call.exchange.answer(lambda _: _tell(call, kept, as_list=as_list))

        self._archive.response(call.tenant, name, found)

    def delete(self, call: Call) -> None:
        """DELETE /v1/responses/{id}; one that runs is stopped first. Its events go with it."""
        name = call.rest
        running = self._running.get((call.tenant, name))
        if running is not None:
            # Its end may have to wait for a reader that is slow, and is not to bring it back.
            running.unwanted = True
            self._stop(call.tenant, name)

        def found(gone: object) -> None:
            is_gone = gone is True or running is not None
            missing = gone if isinstance(gone, Failure) else None if is_gone else NO_RESPONSE
            call.exchange.answer(lambda _: self._tell_gone(call, missing))

        self._archive.forget_response(call.tenant, name, found)

    def cancel(self, call: Call) -> None:
        """POST /v1/responses/{id}/cancel: stop one that runs in the background."""
        name = call.rest.removesuffix(CANCEL)
        if name == call.rest:
            call.exchange.fail(NO_RESPONSE)
            return
        running = self._running.get((call.tenant, name))
        if running is not None:
            self._stop(call.tenant, name)
            call.exchange.reply(200, JSON_BODY, running.in_state("cancelled"))
            return

        def found(kept: object) -> None:
            there = NOT_RUNNING if isinstance(kept, KeptResponse) else NO_RESPONSE
            over = kept if isinstance(kept, Failure) else there
            call.exchange.answer(lambda exchange: exchange.fail(over))

        self._archive.response(call.tenant, name, found)

    def _tell_gone(self, call: Call, failure: Failure | None) -> None:
        if failure is not None:
            call.exchange.fail(failure)
            return
        self._reattach.forget(RequestId(call.rest.removeprefix(ID_PREFIX)), call.tenant)
        told = {"id": call.rest, "object": "response", "deleted": True}
        call.exchange.reply(200, JSON_BODY, _encode(told))

    def _stop(self, tenant: TenantId, name: str) -> None:
        self._mind.cancel(RequestId(name.removeprefix(ID_PREFIX)), tenant)

    def _stream(self, call: Call, name: str, after: str) -> None:
        if after and not (after.isascii() and after.isdigit() and len(after) < 10):
            call.exchange.fail(
                Failure("bad_request", "Name an event by its number.", "starting_after")
            )
            return
        wanted = int(after) + 1 if after else 0
        self._reattach.resume(call, RequestId(name.removeprefix(ID_PREFIX)), wanted)


def _query(call: Call) -> str:
    return call.exchange.query.decode("latin-1")


def _messages(said: object) -> tuple[Message, ...] | Failure:
    if isinstance(said, Failure):
        return said
    return said if isinstance(said, tuple) else NO_PREVIOUS


def _tell(call: Call, kept: object, *, as_list: bool) -> None:
    exchange = call.exchange
    if isinstance(kept, Failure):
        exchange.fail(kept)
    elif not isinstance(kept, KeptResponse):
        exchange.fail(NO_RESPONSE)
    elif as_list:
        exchange.reply(200, JSON_BODY, _listed(kept.asked))
    else:
        exchange.reply(200, JSON_BODY, kept.body)


def _listed(asked: tuple[Message, ...]) -> bytes:
    return _encode({"object": "list", "data": msgspec.Raw(as_items(asked)), "has_more": False})
