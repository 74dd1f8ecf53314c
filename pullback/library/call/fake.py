"""Fake implementations: what an operator returns for tensors that have a shape but no data."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from pullback.library.registry import Kernel, Operator


class FakeImplCtx:
    """What `get_ctx()` gives a fake implementation: sizes that depend on data.

    `new_size(min, max)` makes one, where the mode that runs the fake knows such sizes.
    """

    def __init__(
        self, operator: Operator, new_size: Callable[[int, int | None], Any] | None = None
    ) -> None:
        self._operator = operator
        self._new_size = new_size

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> Any:
        """A size that is known only when the operator runs on data."""
        for name, bound in (("min", min), ("max", max)):
            if bound is None and name == "max":
                continue
            if not isinstance(bound, int) or isinstance(bound, bool):
                raise ValueError(
                    f"new_dynamic_size of {self._operator.qualname}: {name} must be a plain int, "
                    f"got {bound!r} of type {type(bound).__name__}."
                )
        if min < 0:
            raise ValueError(
                f"new_dynamic_size of {self._operator.qualname}: min must be 0 or more, got {min}: "
                "no dimension has a negative size."
            )
        if max is not None and max < min:
            raise ValueError(
                f"new_dynamic_size of {self._operator.qualname}: max ({max}) is less than min "
                f"({min})."
            )
        if self._new_size is None:
            raise RuntimeError(
                f"{self._operator.qualname}: the shape of its result depends on data, and tensors "
                "without data (device 'meta') cannot have such a shape. Run it on real tensors."
            )
        return self._new_size(min, max)

    # The name it had before.
    create_unbacked_symint = new_dynamic_size
    new_unbacked_symint = new_dynamic_size


# Makes sizes that depend on data, where someone can use them; see `opcheck`.
sizes: ContextVar[Callable[[int, int | None], Any] | None] = ContextVar(
    "pullback_fake_sizes", default=None
)
active: ContextVar[FakeImplCtx | None] = ContextVar("pullback_fake_ctx", default=None)


def get_ctx() -> FakeImplCtx | None:
    """Inside a fake implementation its context, with `new_dynamic_size`; None elsewhere.

    >>> import pullback as torch
    >>> torch.library.get_ctx() is None
    True
    """
    return active.get()


def run_fake(
    operator: Operator,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    new_size: Callable[[int, int | None], Any] | None = None,
) -> Any:
    """Run the fake implementation; `new_size` makes sizes that depend on data."""
    before = active.get()
    try:
        active.set(FakeImplCtx(operator, new_size or sizes.get()))
        return _function_of(operator)(*args, **kwargs)
    finally:
        active.set(before)


def kernel_of(operator: Operator) -> Kernel:
    """The kernel that runs for tensors without data."""
    _function_of(operator)  # refused before anything happens
    where = None if operator.fake is None else operator.fake.where
    return Kernel(lambda *args, **kwargs: run_fake(operator, args, kwargs), where)


def _function_of(operator: Operator) -> Callable[..., Any]:
    if operator.fake is not None:
        return operator.fake.function
    schema = operator.schema
    if not schema.returns and schema.is_mutable:
        return lambda *args, **kwargs: None
    error = RuntimeError if operator.kind == "custom_op" else NotImplementedError
    raise error(
        f"{operator.qualname} was called with a tensor that has no data (device 'meta' or a fake "
        "tensor), and it has no fake implementation that would tell the shape of its result. "
        f"Register one with pullback.library.register_fake({operator.qualname!r}, function)."
    )
