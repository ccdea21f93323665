"""SHELL: how vectors are pooled, as a model's folder says.

A folder that was made for that has a `modules.json`: which parts its makers put one behind the
other. Transformer, pooling and normalisation are known here, and whatever else stands there is
refused: vectors without it would look right and mean less.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from roost.backends.hosted.engine import CannotLoad

Pooling: TypeAlias = Literal["mean", "cls", "lasttoken", "max"]
MODULES = "modules.json"


class _Module(msgspec.Struct):
    type: str = ""
    path: str = ""


class _Pooled(msgspec.Struct):
    pooling_mode: str = ""
    pooling_mode_cls_token: bool = False
    pooling_mode_mean_tokens: bool = False
    pooling_mode_max_tokens: bool = False
    pooling_mode_mean_sqrt_len_tokens: bool = False
    pooling_mode_weightedmean_tokens: bool = False
    pooling_mode_lasttoken: bool = False


_MODES: dict[str, Pooling] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "lasttoken",
}
_NAMED: dict[str, Pooling] = {one: one for one in _MODES.values()}


def pooling_of(folder: Path) -> Pooling:
    """Read how one vector is made of a text's many; raises `CannotLoad`."""
    try:
        modules = msgspec.json.decode((folder / MODULES).read_bytes(), type=list[_Module])
        known = [one.type.rpartition(".")[2] for one in modules]
        if known[:2] != ["Transformer", "Pooling"] or known[2:] not in ([], ["Normalize"]):
            raise CannotLoad(f"The model's parts are not all known here: {', '.join(known)}.")
        file = folder / modules[1].path / "config.json"
        pooled = msgspec.json.decode(file.read_bytes(), type=_Pooled)
    except OSError:
        message = f"The folder does not say how vectors are made ({MODULES} and what it names)."
        raise CannotLoad(message) from None
    except msgspec.DecodeError as error:
        raise CannotLoad(f"What the folder says of vectors cannot be read: {error}.") from None
    told = [name for name in _Pooled.__struct_fields__[1:] if getattr(pooled, name)]
    found = _NAMED.get(pooled.pooling_mode) if pooled.pooling_mode else None
    if found is None and not pooled.pooling_mode and len(told) == 1:
        found = _MODES.get(told[0])
    if found is None:
        raise CannotLoad(f"The pooling {pooled.pooling_mode or ', '.join(told)!r} is not known.")
    return found
