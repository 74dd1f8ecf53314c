"""The order in which `einsum` contracts: NumPy's search, or opt_einsum's where it is installed."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from pullback.backends.switches import flags_of
from pullback.core.listing import only_public as _only_public

_STRATEGIES = ("auto", "greedy", "optimal")
# The others of opt_einsum, which torch takes by assignment alone.
_MORE = (
    *("auto-hq", "branch-1", "branch-2", "branch-all", "dp", "dynamic-programming", "eager"),
    *("opportunistic", "random-greedy", "random-greedy-128"),
)


def is_available() -> bool:
    """Whether opt_einsum is installed.

    >>> import pullback as torch
    >>> torch.backends.opt_einsum.is_available() in (True, False)
    True
    """
    return find_spec("opt_einsum") is not None


def get_opt_einsum() -> Any:
    """The module, or None."""
    return import_module("opt_einsum") if is_available() else None


_settings: dict[str, Any] = {
    "enabled": is_available(),
    "strategy": "auto" if is_available() else None,
}


def set_flags(_enabled: bool | None = None, _strategy: str | None = None) -> tuple[Any, ...]:
    """Set the switches that are not None; what they were before."""
    before = tuple(_settings.values())
    if _enabled is not None:
        _settings["enabled"] = _enabled
    if _strategy is not None:
        if _strategy not in _STRATEGIES:
            raise ValueError(
                f"backends.opt_einsum.strategy is one of {', '.join(_STRATEGIES)}, got "
                f"{_strategy!r}."
            )
        _settings["strategy"] = _strategy
    return before


# Properties of the module, below.
enabled: bool
strategy: str | None

flags = flags_of(_settings, enabled=None, strategy=None)


class _Switches(ModuleType):
    """This module, with switches that are checked when set."""

    @property
    def enabled(self) -> bool:
        """Whether contractions are ordered."""
        return bool(_settings["enabled"])

    @enabled.setter
    def enabled(self, value: bool) -> None:
        set_flags(_enabled=value)

    @property
    def strategy(self) -> str | None:
        """How their order is searched for."""
        chosen: str | None = _settings["strategy"]
        return chosen

    @strategy.setter
    def strategy(self, value: str) -> None:
        if value in _MORE:
            _settings["strategy"] = value
        else:
            set_flags(_strategy=value)


sys.modules[__name__].__class__ = _Switches

__all__: list[str] = ["flags", "get_opt_einsum", "is_available", "set_flags"]
__dir__ = _only_public(globals(), "enabled strategy")
