"""VALUE: settings. `roost.config.read` fills them from this process, and only it looks outside."""

from __future__ import annotations

from roost.config.load import Loaded, Machine, load
from roost.config.setting import Setting
from roost.config.settings import Settings
from roost.config.table import TABLE

__all__ = ["TABLE", "Loaded", "Machine", "Setting", "Settings", "load"]
