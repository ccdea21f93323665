"""VALUE: roost serves large language models from machines people own."""

__version__ = "0.1.0"
