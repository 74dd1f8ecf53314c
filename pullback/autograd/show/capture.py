"""Keeps the graph of the last backward() or grad() while a program runs, for `pullback graph`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pullback import autograd
from pullback.autograd.show import Page, show
from pullback.core.tensor import Tensor


class Captured:
    """The last graph; described before its pass, while what was saved is there."""

    def __init__(self) -> None:
        self.page: Page | None = None


@contextmanager
def passes() -> Iterator[Captured]:
    """Inside, every call of backward() or grad() has its graph described first."""
    captured = Captured()
    plain: dict[str, Any] = {"backward": autograd.backward, "grad": autograd.grad}
    try:
        for name, function in plain.items():
            setattr(autograd, name, _describing(function, captured))
        yield captured
    finally:
        for name, function in plain.items():
            setattr(autograd, name, function)


def _describing(run: Callable[..., Any], captured: Captured) -> Callable[..., Any]:
    def describe_and_run(outputs: Any, *args: Any, **kwargs: Any) -> Any:
        roots = [outputs] if isinstance(outputs, Tensor) else list(outputs)
        shown = [root for root in roots if getattr(root, "requires_grad", True)]
        if shown:  # else the pass itself says what is wrong
            captured.page = show(*shown)
        return run(outputs, *args, **kwargs)

    describe_and_run.__name__ = run.__name__
    describe_and_run.__doc__ = run.__doc__
    return describe_and_run


def page_of(captured: Captured, left: dict[str, Any], name: str | None, title: str) -> Page:
    """The page to write: of a variable if one is named, else of the last pass."""
    if name is not None:
        page = _page_of_variable(left, name)
    elif captured.page is None:
        raise LookupError(
            "the script called neither backward() nor grad(). Name a variable with --of, e.g. "
            "--of loss."
        )
    else:
        page = captured.page
        _add_costs(page)
    page.title = title
    return page


def _page_of_variable(left: dict[str, Any], name: str) -> Page:
    if name not in left:
        tensors = [key for key, one in left.items() if isinstance(one, Tensor) and one.grad_fn]
        known = f"; it has {', '.join(tensors)}" if tensors else ""
        raise LookupError(f"the script left no global variable {name!r}{known}.")
    try:
        return show(left[name])
    except (RuntimeError, TypeError) as error:
        raise LookupError(f"{name}: {error}") from error


def _add_costs(page: Page) -> None:
    """What a profiler found after the graph was described."""
    from pullback.autograd.show.describe import costs_by_number

    costs = costs_by_number()
    for node in page.graph.nodes:
        if node.sequence in costs:
            node.time, node.memory = costs[node.sequence]
