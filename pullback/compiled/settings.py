"""Modules of settings that programs read and set, and that change nothing here."""

from __future__ import annotations

import sys
from contextlib import ContextDecorator
from types import ModuleType
from typing import Any

__all__ = ["Settings", "install"]


class Settings(ModuleType):
    """A module whose settings can be patched for a while."""

    def patch(self, changes: Any = None, value: Any = None, **named: Any) -> _Patch:
        """A context and decorator in which settings are others."""
        if isinstance(changes, str):
            named = {changes: value, **named}
        elif changes:
            named = {**changes, **named}
        return _Patch(self, named)

    def get_config_copy(self) -> dict[str, Any]:
        """The settings, by name."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def load_config(self, config: dict[str, Any]) -> None:
        """Set what `save_config` gave."""
        vars(self).update(config)

    save_config = shallow_copy_dict = get_config_copy


class _Patch(ContextDecorator):
    """Settings that are others for the time of a block."""

    def __init__(self, module: Settings, changes: dict[str, Any]) -> None:
        self.module, self.changes = module, changes
        for name in changes:
            if name not in vars(module):
                raise AttributeError(f"{module.__name__} has no setting {name!r}.")

    def __enter__(self) -> None:
        self.before = {name: getattr(self.module, name) for name in self.changes}
        vars(self.module).update(self.changes)

    def __exit__(self, *error: object) -> None:
        vars(self.module).update(self.before)


def install(name: str) -> None:
    """Make a module one of settings."""
    sys.modules[name].__class__ = Settings
