"""Fixtures of the backends' tests."""

from __future__ import annotations

import pytest

from roost.core.model import Manifest
from roost.store.home import Home
from roost.store.models.registry import ModelStore
from tests.smollm2 import smollm2_path


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """Give the small real model as the store lists it."""
    home = Home.open(tmp_path_factory.mktemp("home"))
    return ModelStore(home).add_file(smollm2_path(), link=True)
