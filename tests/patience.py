"""VALUE: how long tests wait for what has to come, on a machine that does other things as well.

Whoever waits does so for a condition and goes on at once when it holds, so that patience costs a
test that passes nothing. Only where a time is what is promised does a test name one of its own.
"""

from __future__ import annotations

PATIENCE_S = 90.0
"""Under the time that a whole test has (`timeout` in pyproject.toml): what is missing gets told."""
