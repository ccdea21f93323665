"""WIRING: what `roost top` shows: the feed, the page made of it, the terminal that shows it."""
