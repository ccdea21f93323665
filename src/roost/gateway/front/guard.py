"""SHELL: access control as a plain ASGI function."""

from __future__ import annotations

from roost.core.ids import TenantId
from roost.dialects.openai.errors import error_body as openai_error
from roost.errors import Failure
from roost.gateway.front.access import Asked, Authorise, Gate, Principal
from roost.gateway.front.asgi import App, Headers, Receive, Scope, Send, Sent
from roost.gateway.front.rendering import ErrorBody
from roost.gateway.front.replies import send_failure, send_reply


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
