"""`torch._assert`: an assertion that stays in a traced program."""

from __future__ import annotations

from typing import Any

from pullback.overrides import handle_torch_function, has_torch_function

__all__ = ["_assert", "assert_is_none"]


def _assert(condition: Any, message: str) -> None:
    """Fail with `message` unless `condition`; recorded where the condition is traced."""
    if type(condition) is not bool and has_torch_function((condition,)):
        handle_torch_function(_assert, (condition,), condition, message)
        return
    if not condition:
        raise AssertionError(message)


def assert_is_none(value: Any, message: str) -> None:
    """Fail with `message` unless the value is None."""
    if value is not None:
        raise AssertionError(message)
