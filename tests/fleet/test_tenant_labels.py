"""Names of tenants in metrics: few, and lasting."""

from __future__ import annotations

from roost.fleet.watching.tenant_labels import OTHERS, TenantLabels


def test_the_first_have_names_and_keep_them() -> None:
    """However many tenants come, there are so many series and one more."""
    labels = TenantLabels(2)
    assert [labels(f"t{number}") for number in range(1000)] == ["t0", "t1", *[OTHERS] * 998]
    assert [labels("t1"), labels("t5"), labels("t0")] == ["t1", OTHERS, "t0"]
    assert TenantLabels(0)("t") == OTHERS
