"""Names of reductions as numbers, and the old pair of switches."""

from __future__ import annotations

from pullback.nn.base.old_names import warn_of_old

_NUMBERS = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """The number of a reduction."""
    if reduction not in _NUMBERS:
        raise ValueError(f'reduction must be "none", "mean" or "sum", got {reduction!r}.')
    return _NUMBERS[reduction]


def legacy_get_string(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> str:
    """The reduction that the old switches mean."""
    name = "mean"
    if reduce is False:
        name = "none"
    elif size_average is False:
        name = "sum"
    if emit_warning:
        warn_of_old("The pair size_average and reduce", f"reduction={name!r}")
    return name


def legacy_get_enum(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> int:
    """The number of the reduction that the old switches mean."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
