"""DECIDER: cards: small files that describe a model which is not a file of weights here.

    backend = "command"                      backend = "openai_http"
    argv = ["python3", "/opt/runner.py"]     url = "https://host.example/v1"
    path = "/models/phi3"                    model = "their-name"
    ctx = 4096                               ctx = 131072

A card is TOML. It is installed as a model is, and names what serves it: a program that speaks the
protocol of runners, or somebody else's server.
"""

from __future__ import annotations

import re
import tomllib
from typing import Annotated, TypeAlias

import msgspec

from roost.errors import fail

CARD_MAX_BYTES = 64 * 1024
CARDS = ("command", "openai_http")
"""What `backend` may say: the formats of models that are cards."""

_URL = re.compile(r"https?://[A-Za-z0-9._\[\]:-]+(/[A-Za-z0-9._~/-]*)?")
_Ctx: TypeAlias = Annotated[int, msgspec.Meta(ge=2, le=100_000_000)]
_Path: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^(/.*)?$")]


class Runner(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="backend", tag="command"
):
    """A model that a program serves.

    `path` is what it is told to load, absolute or "". `ctx` is the most tokens of a slot. Without a
    `chat_template` it completes text alone; `bos`, `eos` and `control_tokens` are the texts that
    the template needs and that no user may write.
    """

    argv: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    ctx: _Ctx
    path: _Path = ""
    chat_template: str | None = None
    bos: str = ""
    eos: str = ""
    add_bos: bool = False
    control_tokens: tuple[str, ...] = ()


class Remote(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="backend", tag="openai_http"
):
    """A model on a server of the OpenAI dialect; `ctx` is the most tokens that it takes.

    `model` is its name there, "" for the only one or one of this name. `key_file` is an absolute
    path to a file with the key, `ca_file` one with the certificates to trust, "" for none.
    """

    url: str
    ctx: _Ctx
    model: str = ""
    key_file: _Path = ""
    ca_file: _Path = ""


Card: TypeAlias = Runner | Remote


def is_card(head: bytes) -> bool:
    """Whether the beginning of a file can be that of a card and of no weights."""
    return re.search(rb"^\s*backend\s*=", head, re.MULTILINE) is not None and b"\0" not in head


def read_card(data: bytes) -> Card:
    """Read a card; raises `bad_request` with what is wrong in it."""
    try:
        card: Card = msgspec.convert(tomllib.loads(data.decode()), Card)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise fail("bad_request", f"The card is no TOML: {error}.") from None
    except msgspec.ValidationError as error:
        raise fail("bad_request", f"The card is wrong: {error}.") from None
    if isinstance(card, Remote) and not _URL.fullmatch(card.url):
        message = "The card is wrong: url is http://HOST[:PORT][/PATH] or https://…"
        raise fail("bad_request", message)
    return card
