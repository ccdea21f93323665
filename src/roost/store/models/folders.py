"""SHELL: models that are folders: a config, a tokeniser and weights, safetensors or ONNX.

Only what says what the model is gets read here: JSON, and the lengths of the shards. Nothing in
such a folder is ever run: code that some bring along is left alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from roost.errors import RoostError, fail
from roost.store.models.parts import check_parts
from roost.store.models.vocabulary import Facts

CONFIG = "config.json"
GENAI = "genai_config.json"
"""What makes a folder one for ONNX GenAI, even beside a config.json."""

MODULES = "modules.json"
"""What the makers of a folder for vectors say of its parts."""

FOLDERS = ("safetensors", "onnx")
"""The formats of such models."""
JSON_MAX_BYTES = 64 * 2**20
HEADER_MAX_BYTES = 100 * 2**20
"""What the format itself allows for the list of tensors in a shard."""

T = TypeVar("T", bound=msgspec.Struct)
BESIDE = (
    *("generation_config.json", "tokenizer.json", "tokenizer_config.json", "tokenizer.model"),
    *("special_tokens_map.json", "chat_template.jinja", "vocab.json", "merges.txt"),
    *("modules.json", "sentence_bert_config.json", "vocab.txt"),
)


class _Config(msgspec.Struct):
    model_type: str = ""
    architectures: tuple[str, ...] = ()
    vocab_size: int = 0
    max_position_embeddings: int = 0
    hidden_size: int = 0
    matryoshka_dimensions: tuple[int, ...] = ()


class _Module(msgspec.Struct, frozen=True):
    type: str = ""
    path: str = ""


class _Sentences(msgspec.Struct, frozen=True):
    max_seq_length: int | None = None


class _Decoder(msgspec.Struct, frozen=True):
    filename: str = ""


class _Model(msgspec.Struct, frozen=True):
    type: str = ""
    vocab_size: int = 0
    context_length: int = 0
    decoder: _Decoder | None = None
    encoder: object = None
    vision: object = None
    speech: object = None


class _Genai(msgspec.Struct, frozen=True):
    model: _Model = _Model()


class _Text(msgspec.Struct):
    content: str = ""


class _Added(msgspec.Struct):
    content: str = ""
    special: bool = False


class _Tokenizer(msgspec.Struct):
    added_tokens: tuple[_Added, ...] = ()


class _Settings(msgspec.Struct):
    chat_template: str | list[object] | None = None
    bos_token: str | _Text | None = None
    eos_token: str | _Text | None = None
    add_bos_token: bool | None = None


def files_of(folder: Path) -> tuple[Path, ...]:
    """List the files of a model folder, its config first; none where it is no such folder."""
    config = next((name for name in (GENAI, CONFIG) if (folder / name).is_file()), "")
    if not config:
        return ()
    # The weights of ONNX lie in files that each writer calls otherwise, but for this beginning.
    kinds = ("*.onnx", "*.onnx[._]*", "*.bin") if config == GENAI else ("*.safetensors",)
    weights = sorted({path for kind in kinds for path in folder.glob(kind) if path.is_file()})
    beside = (folder / name for name in (*BESIDE, *_pooling(folder)))
    return (folder / config, *(path for path in beside if path.is_file()), *weights)


def _pooling(folder: Path) -> tuple[str, ...]:
    """Name the files, below the folder, that say how vectors are made; none where nothing is."""
    path = folder / MODULES
    modules = _listed(path) if path.is_file() else ()
    inner = (Path(one.path) for one in modules if one.path)
    # What points out of the folder is none of its files.
    return tuple(
        str(one / CONFIG) for one in inner if not one.is_absolute() and ".." not in one.parts
    )


def _listed(path: Path) -> tuple[_Module, ...]:
    try:
        return msgspec.json.decode(_bytes(path), type=tuple[_Module, ...])
    except msgspec.DecodeError as error:
        raise fail("bad_request", f"{path.name} cannot be read: {error}.") from None


def read_folder(paths: tuple[Path, ...]) -> Facts:
    """Say what the model is whose files these are; raises `bad_request` where it is none."""
    facts = _genai(paths) if paths[0].name == GENAI else _safetensors(paths)
    named = {path.name: path for path in paths if path.parent == paths[0].parent}
    tokenizer = _read(named.get("tokenizer.json"), _Tokenizer)
    settings = _read(named.get("tokenizer_config.json"), _Settings)
    template = _template(named.get("chat_template.jinja"), settings)
    return msgspec.structs.replace(
        facts,
        chat_template=template,
        bos=_text(settings.bos_token),
        eos=_text(settings.eos_token),
        add_bos=bool(settings.add_bos_token),
        control_tokens=tuple(one.content for one in tokenizer.added_tokens if one.special),
        tasks=facts.tasks or (("completion",) if template is None else ("chat", "completion")),
    )


def _safetensors(paths: tuple[Path, ...]) -> Facts:
    config = _read(paths[0], _Config)
    shards = [path for path in paths if path.suffix == ".safetensors"]
    if not shards:
        raise fail("bad_request", "The folder has a config.json and no weights (*.safetensors).")
    check_parts(path.name for path in shards)
    named = {path.name: path for path in paths if path.parent == paths[0].parent}
    makes = any(one.type.endswith("Pooling") for one in _listed_in(named.get(MODULES)))
    if not makes and not any(name.endswith("ForCausalLM") for name in config.architectures):
        raise _no_writer(", ".join(config.architectures) or "none")
    own = (
        _read(named.get("sentence_bert_config.json"), _Sentences).max_seq_length if makes else None
    )
    lengths = [one for one in (own, config.max_position_embeddings) if one and one > 0]
    shorter = [one for one in config.matryoshka_dimensions if 0 < one < config.hidden_size]
    return Facts(
        format="safetensors",
        architecture=config.model_type,
        ctx_train=min(lengths, default=0),
        vocab_size=config.vocab_size,
        weight_bytes=sum(_data_bytes(path) for path in shards),
        tasks=("embeddings",) if makes else (),
        vector_sizes=(config.hidden_size, *shorter) if config.hidden_size > 0 else (),
    )


def _listed_in(path: Path | None) -> tuple[_Module, ...]:
    return () if path is None else _listed(path)


def _genai(paths: tuple[Path, ...]) -> Facts:
    model = _read(paths[0], _Genai).model
    others = (model.encoder, model.vision, model.speech)
    if model.decoder is None or any(one is not None for one in others):
        raise _no_writer(model.type or "nothing")
    weights = [path for path in paths if path.suffix != ".json" and ".onnx" in path.name]
    if not any(path.suffix == ".onnx" for path in weights):
        raise fail("bad_request", f"The folder has a {GENAI} and no weights (*.onnx).")
    wanted = model.decoder.filename
    if wanted and wanted not in {path.name for path in paths}:
        raise fail("bad_request", f"The folder's {GENAI} names {wanted}, which is not in it.")
    return Facts(
        format="onnx",
        architecture=model.type,
        ctx_train=model.context_length,
        vocab_size=model.vocab_size,
        weight_bytes=sum(path.stat().st_size for path in weights),
    )


def _no_writer(told: str) -> RoostError:
    said = f"The folder holds no model that writes text alone (it says: {told})."
    return fail("bad_request", said)


def _template(path: Path | None, settings: _Settings) -> str | None:
    if path is not None:
        return _bytes(path).decode("utf-8", "replace")
    # Some have several under names; which is for what is not told in a way that all share.
    return settings.chat_template if isinstance(settings.chat_template, str) else None


def _text(token: str | _Text | None) -> str:
    return token.content if isinstance(token, _Text) else token or ""


def _read(path: Path | None, kind: type[T]) -> T:
    if path is None:
        return kind()
    try:
        return msgspec.json.decode(_bytes(path), type=kind)
    except msgspec.DecodeError as error:
        raise fail("bad_request", f"{path.name} cannot be read: {error}.") from None


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(JSON_MAX_BYTES + 1)
    except OSError as error:
        raise fail("bad_request", f"{path.name} cannot be read: {error.strerror}.") from None
    if len(data) > JSON_MAX_BYTES:
        raise fail("bad_request", f"{path.name} is too long.")
    return data


def _data_bytes(path: Path) -> int:
    """Give the bytes of a shard's tensors, after a look whether it is whole."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            listed = file.read(length) if length <= min(HEADER_MAX_BYTES, size) else b""
        tensors = msgspec.json.decode(listed, type=dict[str, dict[str, object]])
        ends = [_end_of(told) for name, told in tensors.items() if name != "__metadata__"]
    except (OSError, msgspec.MsgspecError):
        raise _damaged(path) from None
    if max(ends, default=0) != size - 8 - length:
        raise _damaged(path)
    return size - 8 - length


def _end_of(tensor: dict[str, object]) -> int:
    found: tuple[int, int] = msgspec.convert(tensor.get("data_offsets"), tuple[int, int])
    return found[1]


def _damaged(path: Path) -> RoostError:
    return fail("bad_request", f"{path.name} is no whole file of safetensors. Download it again.")
