"""DECIDER: how a child is asked to keep what it allocates in huge pages."""

from __future__ import annotations

from collections.abc import Mapping

TUNABLES = "GLIBC_TUNABLES"
HUGE_PAGES = "glibc.malloc.hugetlb"


def with_huge_pages(environ: Mapping[str, str]) -> dict[str, str]:
    """Ask Linux for huge pages under all that is allocated, unless an operator has said which.

    Gives what belongs into the environment of a child that has this one beside.

    A token reads every weight once: with pages of 4 KB a fifth of its time is looking up where they
    are. It is a hint; other systems do not know the variable.
    """
    tunables = environ.get(TUNABLES, "")
    if HUGE_PAGES not in tunables:
        tunables = ":".join(filter(None, (tunables, f"{HUGE_PAGES}=1")))
    return {TUNABLES: tunables}
