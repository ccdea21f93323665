"""WIRING: `python -m roost` is the `roost` command."""

from roost.cli.main import main

main()
