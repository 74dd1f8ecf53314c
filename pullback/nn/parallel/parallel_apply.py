"""Several modules, each with inputs of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["parallel_apply"]


def parallel_apply(
    modules: Sequence[Any],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """Call each module with its inputs; one after another, on the one device there is.

    >>> import pullback as torch
    >>> torch.nn.parallel.parallel_apply([torch.nn.ReLU()], [torch.tensor([-1.0])])
    [tensor([0.])]
    """
    options = [{}] * len(modules) if kwargs_tup is None else kwargs_tup
    if not len(modules) == len(inputs) == len(options):
        raise AssertionError(
            f"parallel_apply: {len(modules)} modules, {len(inputs)} inputs and {len(options)} "
            "keyword arguments; there must be as many of each."
        )
    return [
        module(*(given if isinstance(given, list | tuple) else (given,)), **more)
        for module, given, more in zip(modules, inputs, options, strict=True)
    ]
