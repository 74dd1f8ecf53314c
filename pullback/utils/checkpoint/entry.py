"""checkpoint() and checkpoint_sequential(): arguments, checks, and the choice of the variant."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from pullback.core.origin import stacklevel
from pullback.utils.checkpoint import nonreentrant
from pullback.utils.checkpoint.reentrant import CheckpointFunction
from pullback.utils.checkpoint.settings import ContextFn, noop_context_fn

__all__ = ["checkpoint", "checkpoint_sequential"]


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: ContextFn = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)` without keeping its intermediates: backward recomputes them.

    Pass `use_reentrant=False`; the other variant, still torch's default, is more limited. The
    function must do the same when run again; random numbers are the same unless
    `preserve_rng_state=False` is given. `context_fn` gives a context for the forward and one for
    re-runs; `determinism_check="none"` skips the comparison of shapes and dtypes; `debug` compares
    the values of both runs and names the first operator that differs; `early_stop` ends a re-run
    once it has what is needed.

    >>> import pullback as torch
    >>> from pullback.utils.checkpoint import checkpoint
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> y = checkpoint(lambda t: (t * t).exp().sum(), x, use_reentrant=False)
    >>> y.backward()
    >>> x.grad
    tensor([  5.4366, 218.3926])
    """
    if use_reentrant is None:
        use_reentrant = _reentrant_by_default("checkpoint()")
    preserve = kwargs.pop("preserve_rng_state", True)
    if not use_reentrant:
        return nonreentrant.run(
            function,
            args,
            kwargs,
            preserve_rng_state=preserve,
            context_fn=context_fn,
            determinism_check=determinism_check,
            debug=debug,
            early_stop=early_stop,
        )
    if kwargs:
        raise ValueError(
            "checkpoint(use_reentrant=True) does not pass on keyword arguments, got "
            f"{', '.join(kwargs)}. Use use_reentrant=False, or functools.partial."
        )
    if context_fn is not noop_context_fn or debug is not False:
        raise ValueError(
            "checkpoint(use_reentrant=True) takes neither context_fn nor debug; use "
            "use_reentrant=False."
        )
    return CheckpointFunction.apply(function, preserve, *args)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Apply functions one after another, in segments of which all but the last are checkpointed.

    `functions` is a list, or an `nn.Sequential`, whose children are taken.

    >>> import pullback as torch
    >>> from pullback.utils.checkpoint import checkpoint_sequential
    >>> x = torch.ones(1, requires_grad=True)
    >>> y = checkpoint_sequential([torch.sin, torch.exp] * 4, 4, x, use_reentrant=False)
    >>> y.backward()
    """
    if use_reentrant is None:
        use_reentrant = _reentrant_by_default("checkpoint_sequential()")
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError(
            f"checkpoint_sequential: unknown arguments {', '.join(kwargs)}; it takes "
            "preserve_rng_state."
        )
    steps = list(functions.children() if hasattr(functions, "children") else functions)
    size = len(steps) // segments
    if size == 0:
        raise ValueError(
            f"checkpoint_sequential: {len(steps)} functions cannot be cut into {segments} segments."
        )
    last = size * (segments - 1)
    for start in range(0, last, size):
        input = checkpoint(
            _in_turn(steps[start : start + size]),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve,
        )
    return _in_turn(steps[last:])(input)


def _in_turn(steps: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def apply(value: Any) -> Any:
        for step in steps:
            value = step(value)
        return value

    return apply


def _reentrant_by_default(what: str) -> bool:
    warnings.warn(
        f"{what}: pass use_reentrant explicitly. It is True now if not given, as in torch; "
        "use_reentrant=False is recommended.",
        UserWarning,
        stacklevel=stacklevel(),
    )
    return True
