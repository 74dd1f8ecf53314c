"""Settings of a thread that a function can change and that decide what its operators do."""

from __future__ import annotations

from typing import Any, NamedTuple

from pullback.core import autocast
from pullback.core.device import CPU, get_default_device, set_default_device
from pullback.core.dtype import get_default_dtype, set_default_dtype
from pullback.core.explain import anomaly
from pullback.core.mode import settle

__all__ = ["Settings"]


class Settings(NamedTuple):
    """The settings of one moment."""

    grad: bool
    inference: bool
    autocast: Any
    default_dtype: Any
    default_device: Any
    anomaly: tuple[bool, bool]

    @classmethod
    def now(cls) -> Settings:
        """Those of this thread."""
        mode = settle()
        return cls(mode.grad, mode.inference, autocast.now(), get_default_dtype(),
                   get_default_device(), _anomaly())  # fmt: skip

    def left(self) -> str | None:
        """What is not as it was, put back; None if all is. Grad mode is the caller's to put back.

        A program would change none of it, so a function that does is no program.
        """
        now = Settings.now()
        changed = None
        if now.default_device is not self.default_device:
            set_default_device(None if self.default_device is CPU else self.default_device)
            changed = "the default device"
        if now.default_dtype is not self.default_dtype:
            set_default_dtype(self.default_dtype)
            changed = "the default dtype"
        if _choices(now.autocast) != _choices(self.autocast):
            names = ("enabled", "dtypes", "cache_enabled", "nesting", "cache")
            autocast.change(**{name: getattr(self.autocast, name) for name in names})
            changed = "autocast"
        if now.anomaly != self.anomaly:
            enabled, check_nan = self.anomaly
            anomaly.switch(enabled=enabled, check_nan=check_nan)
            changed = "anomaly detection"
        if (now.grad, now.inference) != (self.grad, self.inference):
            changed = "grad mode"
        return changed


def _anomaly() -> tuple[bool, bool]:
    return anomaly.state.enabled, anomaly.state.check_nan


def _choices(one: Any) -> tuple[Any, ...]:
    """What a program can see of autocast's settings; each region has an object of its own."""
    return one.enabled, one.dtypes, one.cache_enabled, one.nesting
