"""SHELL: the HTTP/1.1 parser under its roost names; the only module that imports httptools.

llhttp runs in its strict mode, which refuses bare LF, folded lines, doubled or odd Content-Length
and Content-Length together with Transfer-Encoding. What strict mode still lets through is refused
in `front.heads`.
"""

from __future__ import annotations

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserUpgrade,
    HttpRequestParser,
    HttpResponseParser,
)

__all__ = [
    "HttpParserCallbackError",
    "HttpParserError",
    "HttpParserUpgrade",
    "HttpRequestParser",
    "HttpResponseParser",
]
