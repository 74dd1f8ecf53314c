"""Switches of oneDNN: kept; NumPy does the work."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pullback.backends.switches import flags_of
from pullback.core.listing import defined as _defined
from pullback.core.listing import only_public as _only_public

VERBOSE_OFF, VERBOSE_ON, VERBOSE_ON_CREATION = 0, 1, 2
enabled = True
deterministic = False
allow_tf32: bool | None = None
fp32_precision = "none"
matmul = SimpleNamespace(fp32_precision="none")
conv = SimpleNamespace(fp32_precision="none")
rnn = SimpleNamespace(fp32_precision="none")

flags = flags_of(
    globals(), enabled=False, deterministic=False, allow_tf32=True, fp32_precision="none"
)


def is_available() -> bool:
    """Whether oneDNN is there: it is not."""
    return False


class verbose:  # noqa: N801 (torch's name)
    """Would make oneDNN tell what it does; it is not there."""

    def __init__(self, level: Any) -> None:
        self.level = level

    def __enter__(self) -> verbose:
        return self

    def __exit__(self, *error: object) -> None:
        pass


__all__: list[str] = _defined(globals(), "Any SimpleNamespace flags_of")
__dir__ = _only_public(globals())
