"""Other names of models, as people write them."""

from __future__ import annotations

import pytest

from roost.cli.parts.aliases import read_aliases
from roost.errors import RoostError


def test_names_and_what_they_stand_for() -> None:
    """Spaces around the sign are none of a name; a model's own name may hold the sign."""
    assert read_aliases(()) == {}
    assert read_aliases(["gpt-4o=m", " big = org/m:1=x "]) == {"gpt-4o": "m", "big": "org/m:1=x"}


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["m"], "write a name"),
        (["=m"], "write a name"),
        (["a="], "write a name"),
        (["a=m", "a=n"], "another model already"),
        (["a=b", "b=m"], "not for a model"),
        (["a=a"], "not for a model"),
    ],
)
def test_what_is_no_alias(texts: list[str], said: str) -> None:
    """The message names what was written and the setting."""
    with pytest.raises(RoostError, match=said) as caught:
        read_aliases(texts)
    assert caught.value.failure.param == "aliases"
