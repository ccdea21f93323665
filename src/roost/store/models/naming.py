"""DECIDER: how a model gets its id from a file name, and which texts are ids at all.

An id becomes part of a path, so it is made of lower-case letters, digits and `._-` alone, begins
with a letter or digit, and nothing that fails `is_model_id` ever meets the file system.
"""

from __future__ import annotations

import re
import unicodedata

from roost.core.ids import ModelId

MAX_ID_CHARACTERS = 96
MAX_NAME_CHARACTERS = 256
"""Of a name, as much is looked at as a file system allows."""

_ID = re.compile(rf"[a-z0-9](?:[a-z0-9._-]{{0,{MAX_ID_CHARACTERS - 2}}}[a-z0-9])?")
_UNSAFE = re.compile(r"[^a-z0-9._-]+")
_REPEATED = re.compile(r"([._-])[._-]+")
_QUANTISATION = re.compile(
    r"""[._-]
    (?: (?:ud[._-])? i?q\d [a-z0-9]* (?:_[a-z0-9]+)*
      | tq\d_\d | mxfp4 (?:_moe)? | nvfp4 | b?f16 | fp16 | f(?:p)?32 | f64
    )$""",
    re.VERBOSE,
)
_SHARD = re.compile(r"-\d{5}-of-\d{5}$")


def is_model_id(text: str) -> bool:
    """Whether `text` can be a model's id: short, plain, and safe as the name of a file."""
    return _ID.fullmatch(text) is not None


def candidate_ids(file_name: str, general_name: str, digest: str) -> tuple[ModelId, ...]:
    """Ids for a model, best first: without its quantisation, with it, with part of its digest.

    `file_name` is the last part of a path; where nothing of it is left in plain letters, the name
    the model gives itself is used, and without that its digest. The last candidate is unique.
    """
    stem = _stem(file_name)
    short = digest.removeprefix("sha256:")[:12]
    plain = _plain(stem) or _plain(general_name) or "model"
    base = _QUANTISATION.sub("", plain) or plain
    unique = f"{base[: MAX_ID_CHARACTERS - 13].rstrip('._-')}-{short}"
    candidates = [unique] if base == "model" else [base, plain, unique]
    return tuple(ModelId(candidate) for candidate in dict.fromkeys(candidates))


def quantisation(file_name: str) -> str:
    """Name how a file's weights are kept, as `q4_k_m`, going by its name; "" if that says nothing.

    `file_name` is the last part of a path, with or without the mark of a shard.
    """
    found = _QUANTISATION.search(_stem(file_name).lower())
    return found[0][1:].replace("-", "_") if found else ""


def _stem(file_name: str) -> str:
    return _SHARD.sub("", re.sub(r"\.(gguf|toml)$", "", file_name, flags=re.IGNORECASE))


def _plain(text: str) -> str:
    """Reduce any text to the characters of an id; "" if none is left."""
    letters = (
        unicodedata.normalize("NFKD", text[:MAX_NAME_CHARACTERS])
        .encode("ascii", "ignore")
        .decode()
        .lower()
    )
    joined = _REPEATED.sub(r"\1", _UNSAFE.sub("-", letters))
    return joined.strip("._-")[:MAX_ID_CHARACTERS].rstrip("._-")
