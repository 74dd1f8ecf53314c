"""What a captured (compiled) backward needs of a custom Function's node.

The user's backward is one opaque call in the captured program. Its saved tensors are inputs of the
program, never constants; everything else on ctx is read afresh at each run.
"""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.core.view import NOWHERE
from pullback.engine.fitting import fitted_all, fitted_tensor


def key(node: Any) -> tuple[int, ...]:
    """What the class says tells one call from another: its id, then sizes that may change."""
    cls = node._forward_cls
    value = cls._compiled_autograd_key(node)
    if not isinstance(value, tuple) or not value or not all(isinstance(v, int) for v in value):
        raise RuntimeError(
            f"{cls.__name__}._compiled_autograd_key must return a tuple of ints, got {value!r}."
        )
    return value


def signature(node: Any) -> tuple[Any, ...]:
    """Two graphs can share one captured program only if this is equal for their nodes."""
    outputs = node._g_sizes if node._g_sizes is not None else ((node._g_shape, node._g_dtype),)
    return (
        key(node)[0],
        len(key(node)),
        tuple(_described(value) for value in lifted(node)),
        node._materializes,
        type(node)._materialize_non_diff_grads.of(node),
        node._is_tensor,
        node.needs_input_grad,
        predicted(node),
        outputs,
    )


def _described(value: Any) -> Any:
    if value is None:
        return None
    return (tuple(value.shape), value._array.dtype, value.device, value.layout)


def lifted(node: Any) -> tuple[Any, ...]:
    """The saved tensors, unpacked: inputs of the captured program."""
    saved: tuple[Any, ...] = node.saved_tensors
    return saved


def predicted(node: Any) -> tuple[Any, ...]:
    """Shape and dtype of each gradient that backward will return, None where nobody wants one."""
    return tuple(
        None if edge is None or edge is NOWHERE else (edge._g_shape, edge._g_dtype)
        for edge in node._edges
    )


def run(node: Any, saved: tuple[Any, ...], grads: Any) -> list[Tensor | None]:
    """The opaque call: backward with `saved` as its saved tensors, its results checked and fitted.

    `grads` is one tensor or None, or a list of them for a node of several results.
    """
    before = (node._saved, node._versions)
    node._saved, node._versions = tuple(saved), ()
    try:
        results = node._run_tensors(grads, node._edges)
    finally:
        node._saved, node._versions = before
    return list(fitted_all(results, node._edges, node, fitted_tensor))
