"""DECIDER: cards: small files that describe a model which is not a file of weights here.

    backend = "command"                      backend = "openai_http"
    argv = ["python3", "/opt/runner.py"]     url = "https://host.example/v1"
    path = "/models/phi3"                    model = "their-name"
    ctx = 4096                               ctx = 131072

A card is TOML. It is installed as a model is, and names what serves it: a program that speaks the
protocol of runners, one that answers one request and ends (`command_once`), or somebody else's
server.
"""

from __future__ import annotations

import re
import tomllib
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from roost.core.hosts import is_host
from roost.core.presets import PRESETS
from roost.errors import fail

CARD_MAX_BYTES = 64 * 1024
CARDS = ("command", "command_once", "omlx", "openai_http", "vllm")
"""What `backend` may say: the formats of models that are cards."""

Asked = Literal[
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "ignore_eos",
]
"""What a client may ask for and a program may be told."""

VLLM_RESERVED = (
    *("--model", "--host", "--port", "--served-model-name"),
    *("--api-key", "--uds", "--root-path", "--ssl-keyfile", "--ssl-certfile"),
)
OMLX_RESERVED = (
    *("--model-dir", "--host", "--port", "--base-path", "--api-key"),
    *("--hot-cache-max-size", "--paged-ssd-cache-dir", "--paged-ssd-cache-max-size"),
)
"""What roost tells a server of its own about where it is, who may ask it and what it keeps."""

_HOST = re.compile(r"[A-Za-z0-9._:-]+|\[[0-9A-Fa-f:.]+\]")
_URL = re.compile(r"https?://[A-Za-z0-9._\[\]:-]+(/[A-Za-z0-9._~/-]*)?")
_Ctx: TypeAlias = Annotated[int, msgspec.Meta(ge=2, le=100_000_000)]
_Path: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^(/.*)?$")]
_Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=86_400)]
_Bytes: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=2**30)]
_Size: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^(0|[1-9][0-9]{0,5}(MB|GB|TB))$")]
_Mark: TypeAlias = Annotated[str, msgspec.Meta(max_length=4096)]


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


class Output(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the output of a program that answers one request is read.

    The answer lies behind the text `after` and before the text `before`, "" for all of it.
    `prompt_tokens` and `completion_tokens` are texts with `{count}` that the program writes behind
    the answer, or on its standard error; "" where it tells no counts.
    """

    after: _Mark = ""
    before: _Mark = ""
    prompt_tokens: _Mark = ""
    completion_tokens: _Mark = ""


class Once(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="backend", tag="command_once"
):
    """A model of which a program answers one request and ends.

    In `argv` the names `{path}`, `{ctx}`, `{threads}`, `{max_tokens}`, `{prompt}` and
    `{prompt_file}` are filled in; without the last two the prompt is its standard input. `options`
    are the words that tell it what a client asks for, with `{value}`; whatever has none is refused.
    A process ends after `time_limit_s` and may write `output_max_bytes`. The other fields are those
    of `Runner`. A card may say `preset` and leave out what that says.
    """

    argv: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    ctx: _Ctx
    path: _Path = ""
    chat_template: str | None = None
    bos: str = ""
    eos: str = ""
    control_tokens: tuple[str, ...] = ()
    options: dict[Asked, tuple[str, ...]] = {}
    output: Output = Output()
    time_limit_s: _Seconds = 600.0
    output_max_bytes: _Bytes = 1024 * 1024


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


class Vllm(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="backend", tag="vllm"
):
    """A folder of weights at `path` that a vLLM of roost's own serves, or one at `host`:`port`.

    `executable` is its Python, or its `vllm`, "" for what is installed beside roost; `args` are
    more words for it. `prefix_caching` off is told to it, on as well where it knows the word. The
    other fields are those of `Remote`, and only for a server that is somebody else's.
    """

    ctx: _Ctx
    path: _Path = ""
    executable: _Path = ""
    args: tuple[str, ...] = ()
    prefix_caching: Literal["auto", "on", "off"] = "auto"
    health_timeout_s: _Seconds = 300.0
    host: str = ""
    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = 8000
    model: str = ""
    key_file: _Path = ""


class Omlx(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="backend", tag="omlx"
):
    """A folder of weights at `path` that an oMLX of roost's own serves; see `Vllm`.

    `hot_cache` and `ssd_cache` are the most that it keeps of prefixes, in memory and on disk.
    """

    ctx: _Ctx
    path: Annotated[str, msgspec.Meta(pattern=r"^/.+$")]
    executable: _Path = ""
    args: tuple[str, ...] = ()
    hot_cache: _Size = "0"
    ssd_cache: _Size = "4GB"
    health_timeout_s: _Seconds = 900.0


Card: TypeAlias = Runner | Once | Remote | Vllm | Omlx


def is_card(head: bytes) -> bool:
    """Whether the beginning of a file can be that of a card and of no weights."""
    return re.search(rb"^\s*backend\s*=", head, re.MULTILINE) is not None and b"\0" not in head


def read_card(data: bytes) -> Card:
    """Read a card; raises `bad_request` with what is wrong in it."""
    try:
        card: Card = msgspec.convert(_filled(tomllib.loads(data.decode())), Card)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise fail("bad_request", f"The card is no TOML: {error}.") from None
    except msgspec.ValidationError as error:
        raise fail("bad_request", f"The card is wrong: {error}.") from None
    if wrong := _wrong(card):
        raise fail("bad_request", f"The card is wrong: {wrong}.")
    if isinstance(card, Vllm) and card.host:
        # One that is somebody else's is a server like any other.
        url = f"http://{card.host}:{card.port}"
        card = Remote(url, card.ctx, card.model, card.key_file)
    return card


def _filled(told: dict[str, object]) -> dict[str, object]:
    """Fill in what a preset says and the card does not; raises `bad_request`."""
    if "preset" not in told or told.get("backend") != "command_once":
        return told
    preset = PRESETS.get(f"{told['preset']}")
    if preset is None:
        known = ", ".join(PRESETS)
        raise fail("bad_request", f"The card is wrong: preset is one of: {known}.")
    return preset | {name: value for name, value in told.items() if name != "preset"}


def _wrong(card: Card) -> str:
    """Say what no type can say of a card, "" where nothing is wrong."""
    if isinstance(card, Remote) and not _is_url(card.url):
        return "url is http://HOST[:PORT][/PATH] or https://…"
    if isinstance(card, Vllm):
        return _wrong_vllm(card)
    if isinstance(card, Omlx):
        return _reserved_in(card.args, OMLX_RESERVED)
    if isinstance(card, Once):
        if not any("{max_tokens}" in word for word in card.argv):
            return "argv needs {max_tokens}, since a program has to keep to the limit of a request"
        if "{" in card.argv[0]:
            return "argv begins with the program itself"
        for mark in (card.output.prompt_tokens, card.output.completion_tokens):
            if mark and (mark.count("{count}") != 1 or mark.startswith("{count}")):
                return "a count is a text with one {count} in it, and not at its beginning"
    return ""


def _is_url(text: str) -> bool:
    return _URL.fullmatch(text) is not None and is_host(urlsplit(text).hostname or "")


def _wrong_vllm(card: Vllm) -> str:
    if bool(card.path) == bool(card.host):
        return "a vLLM has either a path, for one of roost's own, or a host"
    if card.host:
        if card.args or card.executable or card.prefix_caching != "auto":
            return "args, executable and prefix_caching are for a vLLM of roost's own"
        is_name = _HOST.fullmatch(card.host) and is_host(card.host)
        return "" if is_name else "host is a name or an address"
    if card.model or card.key_file:
        return "model and key_file are for a vLLM that is somebody else's"
    return _reserved_in(card.args, VLLM_RESERVED)


def _reserved_in(args: tuple[str, ...], reserved: tuple[str, ...]) -> str:
    """Look for words that roost says itself, also in the short and the other ways to write them."""
    for word in args:
        name = word.partition("=")[0].replace("_", "-")
        for one in reserved:
            # Python's parsers take the beginning of a flag for the whole of it.
            if name == one or (len(name) > 2 and one.startswith(name)):
                return f"args may not have {one}, which roost sets"
    return ""
