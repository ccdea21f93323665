"""SHELL: access control, routing and last resort as plain ASGI functions."""

from __future__ import annotations

from roost.core.ids import TenantId
from roost.dialects.openai_errors import error_body as openai_error
from roost.errors import Failure, RoostError
from roost.gateway.front.access import Asked, Authorise, Gate, Principal
from roost.gateway.front.asgi import App, Headers, Receive, Scope, Send, Sent
from roost.gateway.front.rendering import ErrorBody
from roost.gateway.front.replies import send_failure, send_reply
from roost.gateway.front.router import NotMatched, Router
from roost.observe import logs


def asked_of(scope: Scope) -> Asked:
    """Return what access depends on."""
    server = scope.get("server")
    method = scope.get("method", "CONNECT" if scope["type"] == "websocket" else "GET")
    return Asked(method, scope["path"], dict(scope["headers"]), server[0] if server else "")


def guarded(
    app: App,
    gate: Gate,
    *,
    websocket: Authorise | None = None,
    error_body: ErrorBody = openai_error,
) -> App:
    """Let through what the gate lets through; `scope["principal"]` then says who asks.

    WebSockets pass the Host and Origin checks and then `websocket`, whose keys are join tokens and
    no API keys; without it they are refused.
    """

    async def entry(scope: Scope, receive: Receive, send: Send) -> None:
        asked = asked_of(scope)
        if scope["type"] == "websocket":
            verdict = gate.check_source(asked) or _link_verdict(websocket, asked)
        else:
            send = _with_headers(send, gate.cors(asked))
            verdict = gate.check(asked)
        if isinstance(verdict, Failure):
            await send_failure(scope, send, verdict, error_body)
        elif scope.get("method") == "OPTIONS":
            await send_reply(send, 204, list(gate.preflight(asked)))
        else:
            scope["principal"] = _named(verdict, scope)
            await app(scope, receive, send)

    return entry


def _link_verdict(websocket: Authorise | None, asked: Asked) -> Principal | Failure:
    if websocket is None:
        return Failure("not_found", "No WebSocket is served here.")
    return websocket(asked.fields)


def _named(principal: Principal, scope: Scope) -> Principal:
    if principal.tenant is not None:
        return principal
    client = scope.get("client")
    return Principal(TenantId(f"addr:{client[0] if client else ''}"), principal.role)


def _with_headers(send: Send, extra: tuple[tuple[bytes, bytes], ...]) -> Send:
    if not extra:
        return send

    async def sending(message: Sent) -> None:
        if message["type"] == "http.response.start":
            headers: Headers = [*message.get("headers", []), *extra]
            message = {**message, "headers": headers}
        await send(message)

    return sending


def routed(router: Router[App], error_body: ErrorBody = openai_error) -> App:
    """Serve the routes of a table; 404 and 405 for what it does not have."""

    async def entry(scope: Scope, receive: Receive, send: Send) -> None:
        found = router.match(scope.get("method", "GET"), scope["raw_path"].decode("ascii"))
        if isinstance(found, NotMatched):
            allow = [(b"allow", ", ".join(found.allow).encode())] if found.allow else []
            await send_failure(scope, send, found.failure, error_body, allow)
            return
        scope["rest"], scope["raw_rest"] = found.rest, found.raw_rest
        await found.handler(scope, receive, send)

    return entry


def safe(app: App, error_body: ErrorBody = openai_error) -> App:
    """Turn what an application raises into a reply, once; a reply that has begun is broken off."""
    log = logs.get()

    async def entry(scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def sending(message: Sent) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await app(scope, receive, sending)
        except RoostError as error:
            failure = error.failure
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
            # Only the name: a traceback would carry what the client sent into the log.
            log.error("internal_error", error=type(error).__name__)  # noqa: TRY400
            failure = Failure("internal", "Something went wrong in this server.")
        else:
            return
        if not started:
            await send_failure(scope, send, failure, error_body)

    return entry
