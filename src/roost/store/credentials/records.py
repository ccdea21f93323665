"""DECIDER: what is known of a key or a join token, and what may be said of a key."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from roost.core.allowance import NO_LIMITS, Allowance
from roost.core.ids import TenantId
from roost.core.request import ServiceClass
from roost.errors import RoostError, fail

MAX_WEIGHT = 1000.0
MAX_NAME_CHARACTERS = 100
MAX_LIMIT = 10**12
MAX_MODELS = 100

Role = Literal["user", "admin"]


class KeyRecord(msgspec.Struct, frozen=True):
    """What is known of a key: `id` is for people and may be shown, the key itself is not kept.

    `weight` is its tenant's share of the fleet against others that wait; `class_` is the best class
    of service it may ask for, and the one it gets if it asks for none. `allowance` is what it may
    use. Keys with the same `cache_salt` share what is computed of prompts, whoever pays for them;
    with "" a tenant's keys share it with each other alone.
    """

    id: str
    name: str
    tenant: TenantId
    role: Role
    created_unix_s: int
    weight: float = 1.0
    class_: ServiceClass = "interactive"
    allowance: Allowance = NO_LIMITS
    cache_salt: str = ""


class Share(msgspec.Struct, frozen=True):
    """How well a key is served: see `KeyRecord`."""

    weight: float = 1.0
    class_: str = "interactive"
    allowance: Allowance = NO_LIMITS
    cache_salt: str = ""


class TokenRecord(msgspec.Struct, frozen=True):
    """What is known of a token; `expires_unix_s` None means that only revoking ends it."""

    id: str
    created_unix_s: int
    expires_unix_s: int | None


def is_label(text: str) -> bool:
    """Whether a name or a tenant can be shown."""
    return 0 < len(text) <= MAX_NAME_CHARACTERS and text.isprintable()


def checked_share(share: Share) -> tuple[float, ServiceClass]:
    """Return a weight and a class that there are; raises `bad_request`, also for limits."""
    _check_allowance(share.allowance)
    if share.cache_salt and not is_label(share.cache_salt):
        raise wrong("cache_salt", f"a salt has 1 to {MAX_NAME_CHARACTERS} printable characters")
    if not 0 < share.weight <= MAX_WEIGHT:
        raise wrong("weight", f"a weight is above 0 and at most {MAX_WEIGHT:g}")
    for known in get_args(ServiceClass):
        if share.class_ == known:
            return share.weight, known
    raise wrong("class", f"a class is one of {', '.join(get_args(ServiceClass))}")


def _check_allowance(allowance: Allowance) -> None:
    for name, value in msgspec.structs.asdict(allowance).items():
        if name != "models" and not 0 <= value <= MAX_LIMIT:
            raise wrong(name, f"{name} is a whole number from 0, for no limit, to {MAX_LIMIT}")
    models = allowance.models
    if len(models) > MAX_MODELS or not all(map(is_label, models)):
        raise wrong("models", f"models are up to {MAX_MODELS} names, each of printable characters")


def read_role(role: str) -> Role:
    """Return a role that there is; raises `bad_request`."""
    if role == "user":
        return "user"
    if role == "admin":
        return "admin"
    raise wrong("role", "a role is user or admin")


def wrong(param: str, words: str) -> RoostError:
    """Build the failure of a key that cannot be made."""
    return fail("bad_request", f"The key cannot be made: {words}.", param=param)
