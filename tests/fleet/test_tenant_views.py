"""The line by tenant: who waits, who runs, and who may see it."""

from __future__ import annotations

from roost.core.ids import ModelId, RequestId, TenantId
from roost.fleet.watching.tenant_views import TENANTS_MAX, TenantLine, by_tenant
from roost.fleet.watching.views import QueueView

ANN, BOB = TenantId("ann"), TenantId("bob")


def waits(tenant: TenantId, waited_s: float, cost: float = 10.0) -> QueueView:
    """One request of this tenant that waits."""
    return QueueView(
        RequestId("r"), tenant, ModelId("m"), "interactive", 1, waited_s, None, cost, None
    )


LINE = (waits(ANN, 1.0), waits(BOB, 2.0), waits(ANN, 3.0, 5.4))
LIVE = (ANN, ANN, ANN, BOB)


def test_an_operator_sees_everybody() -> None:
    """Who has most waiting comes first; running is what is alive and does not wait."""
    seen = by_tenant(LINE, LIVE, None)
    assert seen.tenants == (TenantLine(ANN, 2, 1, 3.0, 15), TenantLine(BOB, 1, 0, 2.0, 10))
    assert (seen.length, seen.left_out) == (3, 0)


def test_a_tenant_sees_its_own_and_how_long_the_line_is() -> None:
    """Nobody else's row; who has nothing has none."""
    assert by_tenant(LINE, LIVE, BOB).tenants == (TenantLine(BOB, 1, 0, 2.0, 10),)
    assert by_tenant(LINE, LIVE, TenantId("eve")).tenants == ()
    assert by_tenant(LINE, LIVE, TenantId("eve")).length == 3


def test_who_only_runs_has_a_row_without_a_wait() -> None:
    """Nothing waits: that is None, and no wait of 0 s."""
    assert by_tenant((), (ANN,), None).tenants == (TenantLine(ANN, 0, 1, None, 0),)


def test_rows_are_bounded() -> None:
    """A thousand addresses are not a thousand rows."""
    crowd = [waits(TenantId(f"addr:{number}"), 1.0) for number in range(1000)]
    seen = by_tenant([*crowd, *LINE], LIVE, None)
    assert (len(seen.tenants), seen.left_out) == (TENANTS_MAX, 1002 - TENANTS_MAX)
    assert seen.tenants[0].tenant == ANN
