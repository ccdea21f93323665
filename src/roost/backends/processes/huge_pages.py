"""DECIDER: how a child is asked to keep what it allocates in huge pages."""

from __future__ import annotations

TUNABLES = "GLIBC_TUNABLES"
HUGE_PAGES = "glibc.malloc.hugetlb"


def with_huge_pages(tunables: str) -> str:
    """Ask Linux for huge pages under all that is allocated, unless an operator has said which.

    A token reads every weight once: with pages of 4 KB a fifth of its time is looking up where they
    are. It is a hint; other systems do not know the variable.
    """
    if HUGE_PAGES in tunables:
        return tunables
    return ":".join(filter(None, (tunables, f"{HUGE_PAGES}=1")))
