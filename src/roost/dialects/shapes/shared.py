"""VALUE: what bodies of several APIs have in common."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

Json: TypeAlias = dict[str, object]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Probability: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]
Temperature: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=2)]
Penalty: TypeAlias = Annotated[float, msgspec.Meta(ge=-2, le=2)]
Ids: TypeAlias = list[Annotated[int, msgspec.Meta(ge=0)]]


class RoostWishes(msgspec.Struct, rename={"class_": "class"}, omit_defaults=True):
    """Twins of the `x-roost-…` headers."""

    timeout_ms: Annotated[int, msgspec.Meta(ge=1)] | None = None
    class_: Literal["interactive", "agent", "bulk"] | None = None
    on_loss: Literal["error", "replay"] | None = None
    reattach_s: float | None = None
    session: str | None = None
    affinity: Literal["prefer", "require"] | None = None
    context: Literal["trim", "reject"] | None = None


class ErrorDetail(msgspec.Struct, forbid_unknown_fields=True):
    """What went wrong; `code` is a reason of the catalogue, `param` the field at fault."""

    message: str
    type: str
    param: str | None
    code: str


class OpenAIError(msgspec.Struct, forbid_unknown_fields=True):
    """A failure, as OpenAI's clients read it."""

    error: ErrorDetail
