"""The benchmark of homecoming: it counts what it says, and its verdict follows the counts."""

from __future__ import annotations

from roost.bench.homecoming import Served, Setup, counted, report


def served(prompt: int, cached: int, said: int = 20, placement: str = "warm") -> Served:
    """A turn."""
    return Served(prompt, cached, said, placement)


def test_what_could_be_cached_is_the_turn_before() -> None:
    """The first turn counts for nothing but the second; each conversation for itself."""
    first = [served(100, 7), served(150, 115, 30), served(200, 0, 5)]
    assert counted([first]) == (115, 120 + 180)
    assert counted([first, [served(50, 50)]]) == (115, 300)


def test_the_verdict_is_about_conversations_that_may_go_home() -> None:
    """Where everybody is at work at once the share is told and not judged."""
    home = [[served(100, 0), served(140, 119)]]
    away = [[served(100, 0), served(140, 0, placement="moved(home_busy)")]]
    good = report(Setup(), {"by name": home, "by history": home}, {"by name": away})
    assert good.passed
    assert good.figures == {"2_by_name": 119 / 120, "2_by_history": 119 / 120, "6_by_name": 0.0}
    assert "1 moved(home_busy)" in good.text()
    assert not report(Setup(), {"by name": home, "by history": away}, {"by name": home}).passed
