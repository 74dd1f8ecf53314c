"""Selective activation checkpointing: which results of a region are kept, operator by operator.

A checkpointed region runs twice. The first context here watches the first run and keeps the results
that a policy chooses; the second one watches the run in backward and gives them back in place of
running the operator again. Both are dispatch modes, so they work below autograd.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

from pullback.core.tensor import Tensor
from pullback.library.builtin.overloads import namespace
from pullback.library.overload import OpOverload, OpOverloadPacket
from pullback.utils._python_dispatch import TorchDispatchMode
from pullback.utils._pytree import tree_map

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts",
]

# Never shown to a policy: they compute nothing, and a first run may do without them.
SAC_IGNORED_OPS: set[Any] = {namespace().detach.default}


class CheckpointPolicy(enum.Enum):
    """What becomes of an operator's result: kept, or computed again in backward.

    MUST and PREFER differ for compilers only. Kept in the CPU's memory means kept as it is here:
    there is no other memory.

    >>> import functools
    >>> import pullback as torch
    >>> from pullback.utils import checkpoint as cp
    >>> def keep_products(ctx, func, *args, **kwargs):
    ...     product = func is torch.ops.aten.mm.default
    ...     return cp.CheckpointPolicy.MUST_SAVE if product else cp.CheckpointPolicy.MUST_RECOMPUTE
    >>> contexts = functools.partial(cp.create_selective_checkpoint_contexts, keep_products)
    >>> w = torch.ones(2, 2, requires_grad=True)
    >>> y = cp.checkpoint(lambda: (w @ w).sin(), use_reentrant=False, context_fn=contexts)
    >>> y.sum().backward()
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_RECOMPUTED = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)


class SelectiveCheckpointContext:
    """The first argument of a policy: where it is asked, and what the operator gave.

    >>> import functools
    >>> import pullback as torch
    >>> from pullback.utils import checkpoint as cp
    >>> def policy(ctx, func, *args, **kwargs):
    ...     if not ctx.is_recompute:
    ...         print(func, tuple(ctx.op_output.shape))
    ...     return cp.CheckpointPolicy.PREFER_RECOMPUTE
    >>> contexts = functools.partial(cp.create_selective_checkpoint_contexts, policy)
    >>> x = torch.ones(2, requires_grad=True)
    >>> y = cp.checkpoint(lambda: x.exp(), use_reentrant=False, context_fn=contexts)
    aten.exp.default (2,)
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


class _Kept:
    """A tensor without history, and the version it had."""

    __slots__ = ("tensor", "version")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor._alias()
        self.version = self.tensor._version

    @property
    def val(self) -> Tensor:
        """The tensor, under torch's name for it."""
        return self.tensor

    def given(self, func: Any, *, mutable: bool) -> Tensor:
        """The tensor once more; refused if it was written since, unless that is allowed."""
        if not mutable and self.tensor._version != self.version:
            raise RuntimeError(
                f"{func}: its result was kept for backward and has been changed in place since "
                f"(version {self.tensor._version}, kept at version {self.version}), so it cannot "
                "stand for a second run. Do not write to it, let the policy recompute it, or pass "
                "allow_cache_entry_mutation=True if the change does not matter."
            )
        return self.tensor._alias()


# What stands in the record of an operator that is to run again.
_AGAIN: Any = object()
# Operator -> what was kept of each of its calls, by number.
_Record = dict[Any, dict[int, Any]]


class _CachingTorchDispatchMode(TorchDispatchMode):
    """The first run: asks the policy after each operator."""

    def __init__(self, policy: Callable[..., Any], record: _Record) -> None:
        self.policy, self.storage = policy, record

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func in SAC_IGNORED_OPS:
            return out
        ctx = SelectiveCheckpointContext(is_recompute=False, op_output=out)
        decision = _as_policy(self.policy(ctx, func, *args, **kwargs))
        # A write must happen again: what the second run made anew has not seen it.
        again = decision in _RECOMPUTED or func._schema.is_mutable
        entry = _AGAIN if again else tree_map(_kept, out)
        calls = self.storage.setdefault(func, {})
        calls[len(calls)] = entry
        return out


def _kept(value: Any) -> Any:
    return _Kept(value) if isinstance(value, Tensor) else value


class _CachedTorchDispatchMode(TorchDispatchMode):
    """The run in backward: gives the kept results in the order in which they were made."""

    def __init__(self, record: _Record, *, mutable: bool) -> None:
        self.storage, self.mutable = record, mutable

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in SAC_IGNORED_OPS:
            return func(*args, **kwargs)
        entries = self.storage.get(func)
        if entries is None:
            raise RuntimeError(
                f"{func} runs in backward but did not run in the checkpointed forward, so nothing "
                "was decided for it. The region must do the same both times: look for randomness "
                "or global state in it that has changed since."
            )
        if not entries:
            raise RuntimeError(
                f"{func}: all that was kept of this selectively checkpointed region is used up. "
                "Backward may go through such a region only once; run the forward again."
            )
        entry = entries.pop(next(iter(entries)))
        if entry is _AGAIN:
            return func(*args, **kwargs)
        return tree_map(
            lambda one: one.given(func, mutable=self.mutable) if isinstance(one, _Kept) else one,
            entry,
        )


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., Any] | Sequence[OpOverload],
    allow_cache_entry_mutation: bool = False,
) -> tuple[TorchDispatchMode, TorchDispatchMode]:
    """The two contexts that `checkpoint(..., context_fn=...)` asks for.

    Args:
        policy_fn_or_list: The operators whose results are kept, or a function
            `policy(ctx, op, *args, **kwargs)` that is asked after each operator of the first run
            and returns a `CheckpointPolicy`, or True to keep the result.
        allow_cache_entry_mutation: Whether a kept result may have been written to since.

    Example:
        >>> import functools
        >>> import pullback as torch
        >>> from pullback.utils.checkpoint import checkpoint
        >>> keep = functools.partial(
        ...     create_selective_checkpoint_contexts, [torch.ops.aten.mm.default]
        ... )
        >>> x = torch.eye(2, requires_grad=True)
        >>> y = checkpoint(lambda x: (x @ x).sin(), x, use_reentrant=False, context_fn=keep)
        >>> y.sum().backward()
        >>> x.grad.shape
        torch.Size([2, 2])
    """
    policy = policy_fn_or_list
    if isinstance(policy_fn_or_list, list):
        policy = _listed(policy_fn_or_list)
    elif not callable(policy_fn_or_list):
        raise TypeError(
            "policy_fn_or_list must be a function or a list of operator overloads, got "
            f"{type(policy_fn_or_list).__name__}."
        )
    record: _Record = {}
    assert callable(policy)
    return _CachingTorchDispatchMode(policy, record), _CachedTorchDispatchMode(
        record, mutable=allow_cache_entry_mutation
    )


def _listed(ops: list[Any]) -> Callable[..., CheckpointPolicy]:
    for op in ops:
        if not isinstance(op, OpOverload):
            packet = isinstance(op, OpOverloadPacket)
            hint = f"; name one, such as {op}.{next(iter(op))}" if packet else ""
            raise ValueError(
                f"The list of operators to keep holds {op!r} of type {type(op).__name__}, which is "
                f"no operator overload{hint}."
            )
    kept = set(ops)

    def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        return CheckpointPolicy.MUST_SAVE if op in kept else CheckpointPolicy.PREFER_RECOMPUTE

    return policy


def _as_policy(answer: Any) -> CheckpointPolicy:
    if isinstance(answer, bool):
        return CheckpointPolicy.MUST_SAVE if answer else CheckpointPolicy.PREFER_RECOMPUTE
    if not isinstance(answer, CheckpointPolicy):
        raise TypeError(
            "A policy of selective checkpointing must return a CheckpointPolicy or a bool, got "
            f"{type(answer).__name__}."
        )
    return answer
