"""Runs the hooks around one node, in their promised order.

That is: tensor hooks, retained gradients, node pre-hooks, the node, node post-hooks. Gradients are
arrays in the plain pass, tensors in a recorded one; hooks always see tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.arrays import OtherArray
from pullback.core.mode import current, get_mode
from pullback.core.node import Cold, Node, run_tensors
from pullback.core.overriding import DISPATCH
from pullback.core.tensor import Tensor, wrap
from pullback.engine.fitting import fitted, fitted_all, fitted_tensor
from pullback.engine.ownership import private_copy

ndarray = numpy.ndarray


def run_with_hooks(node: Any, g: Any, edges: tuple[Any, ...]) -> Any:
    """Run a node of the plain pass that has hooks (or metadata), or whose gradient is undefined."""
    if node._g_sizes is not None or node._cold is None:
        gradients = tuple(tensors_of(g if isinstance(g, list) else (g,)))
        return _run_around(node, gradients, edges, tensors=False)
    cold = node._cold
    shown = None if g is None else wrap(g if g.__class__ is ndarray else _array(g))
    if cold.tensor_hooks:
        shown = run_hooks(cold.tensor_hooks[0].values(), shown)
    if cold.retained and shown is not None:
        _retain_all(cold, (shown,))
    if cold.pre_hooks:
        (shown,) = run_pre_hooks(cold, (shown,))
    gradients = (shown,) if cold.post_hooks else ()
    if shown is not None:
        results = node._run(shown._array, edges)
    else:
        results = _run_node(node, [None], edges, tensors=False)
    if not cold.post_hooks:
        return results
    return _with_post_hooks(node, results, gradients, edges, tensors=False)


def run_tensors_with_hooks(node: Any, g: Any, edges: tuple[Any, ...]) -> Any:
    """What a node of the recorded pass and its hooks make of a gradient, or of none."""
    gradients = tuple(g) if node._g_sizes is not None else (g,)
    return _run_around(node, gradients, edges, tensors=True)


def _run_around(
    node: Any, gradients: tuple[Any, ...], edges: tuple[Any, ...], *, tensors: bool
) -> Any:
    gradients = run_before(node._cold, gradients)
    given = [t if tensors or t is None else t._array for t in gradients]
    if node._cold is None or not node._cold.post_hooks:
        gradients = ()  # nobody keeps them while the node runs
    results = _run_node(node, given, edges, tensors=tensors)
    return _with_post_hooks(node, results, gradients, edges, tensors=tensors)


def _run_node(node: Any, given: list[Any], edges: tuple[Any, ...], *, tensors: bool) -> Any:
    # Where no gradient arrives, none goes on; only a user's backward is asked all the same.
    if not node._by_user and all(g is None for g in given):
        return (None,) * len(edges)
    g = given if node._g_sizes is not None else given[0]
    return run_tensors(node, g, edges) if tensors else node._run(g, edges)


def _with_post_hooks(
    node: Any, results: Any, gradients: tuple[Any, ...], edges: tuple[Any, ...], *, tensors: bool
) -> Any:
    """What the post-hooks make of results; `gradients` is () if they came while the node ran."""
    if node._cold is None or not node._cold.post_hooks:
        return results
    fit = fitted_all(results, edges, node, fitted_tensor if tensors else fitted)
    changed = run_post_hooks(node, tuple(tensors_of(fit)), gradients)
    return changed if tensors else tuple(None if t is None else t._array for t in changed)


def run_new_post_hooks(node: Any, results: Any, edges: tuple[Any, ...]) -> Any:
    """Post-hooks that a node without any got while it ran: nobody kept its gradients for them."""
    return _with_post_hooks(node, results, (), edges, tensors=False)


def run_new_post_hooks_on_tensors(node: Any, results: Any, edges: tuple[Any, ...]) -> Any:
    """The same in the recorded pass."""
    return _with_post_hooks(node, results, (), edges, tensors=True)


def tensors_of(values: Iterable[Any]) -> Iterable[Any]:
    """Arrays as tensors; tensors and None as they are."""
    for value in values:
        yield value if value is None or isinstance(value, Tensor) else wrap(_array(value))


def _array(value: Any) -> Any:
    kept = isinstance(value, OtherArray) or hasattr(value, "ctypes")
    return value if kept else private_copy(value)


def run_before(cold: Cold | None, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensor hooks, retained gradients, node pre-hooks."""
    if cold is None:
        return gradients
    gradients = run_tensor_hooks(cold, gradients)
    return run_pre_hooks(cold, gradients)


def run_tensor_hooks(cold: Cold, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    """Hooks of the tensors that a node made, then what they retain."""
    changed = list(gradients)
    for number, hooks in list((cold.tensor_hooks or {}).items()):
        changed[number] = run_hooks(hooks.values(), changed[number])
    if cold.retained:
        _retain_all(cold, changed)
    return tuple(changed)


def _retain_all(cold: Cold, gradients: Sequence[Any]) -> None:
    for number, reference in list((cold.retained or {}).items()):
        tensor = reference()
        if tensor is not None and gradients[number] is not None:
            retain(tensor, gradients[number])


def run_hooks(hooks: Iterable[Any], g: Any) -> Any:
    """Call each hook on the gradient that the one before left."""
    mode = get_mode()
    for hook in list(hooks):
        returned = hook(g)
        if get_mode() is not mode:
            current.set(mode)  # whatever the hook did to grad mode ends here
        if returned is None or returned is g:
            continue
        g = checked(hook, returned, g)
    return g


def checked(hook: Any, returned: Any, g: Any) -> Any:
    """What a hook returned, if it can stand for `g`."""
    if returned.__class__ is Tensor and g.__class__ is Tensor:
        new, old = returned._array, g._array
        if new.dtype is old.dtype and new.shape == old.shape:
            return returned
    if not isinstance(returned, Tensor):
        raise errors.hook_returned_type(hook, type(returned))
    if g is None:
        raise errors.hook_replaced_none(hook)
    if returned.dtype is not g.dtype:
        raise errors.hook_returned(hook, "dtype")
    if returned.device != g.device:
        raise errors.hook_returned(hook, "device")
    if returned._array.shape != g._array.shape:
        raise errors.hook_returned(hook, "size")
    if returned._layout is not g._layout:
        raise errors.hook_returned(hook, "layout")
    return returned


def retain(tensor: Tensor, g: Tensor) -> None:
    """Store the gradient of a non-leaf: a copy first, then sums, always new objects."""
    if g.__class__ is not Tensor and hasattr(g, "bdim"):
        # A pass over a batch of gradients: all of them are kept, the examples in front.
        batched: Any = g
        g = batched.value.movedim(batched.bdim, 0)
    stored = tensor._stored_grad
    if stored is None:
        tensor._stored_grad = (
            _own(g) if g.requires_grad or g._overrides & DISPATCH else wrap(private_copy(g._array))
        )
    else:
        tensor._stored_grad = stored + g


def _own(g: Tensor) -> Tensor:
    return g.clone() if g._layout is not None else g.clone().contiguous()


def run_pre_hooks(cold: Cold, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    """Hooks that see all gradients of a node before it runs."""
    for hook in list((cold.pre_hooks or {}).values()):
        gradients = replaced(hook, called(hook, gradients), gradients)
    return gradients


def run_post_hooks(
    node: Node, results: tuple[Any, ...], gradients: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Hooks that see what a node returned."""
    hooks = node._cold.post_hooks if node._cold is not None else None
    for hook in list((hooks or {}).values()):
        results = replaced(hook, called(hook, results, gradients), results)
    return results


def called(hook: Any, *args: Any) -> Any:
    """What a hook returns; whatever it did to grad mode ends with it."""
    mode = get_mode()
    returned = hook(*args)
    if get_mode() is not mode:
        current.set(mode)
    return returned


def replaced(hook: Any, returned: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a hook that sees all gradients of a node made of them."""
    if returned is None:
        return values
    if not isinstance(returned, tuple):
        raise TypeError(
            f"hook '{getattr(hook, '__name__', hook)}' must return a tuple of gradients or None, "
            "got "
            f"{type(returned).__name__}."
        )
    if len(returned) != len(values):
        raise RuntimeError(
            f"hook '{getattr(hook, '__name__', hook)}' returned {len(returned)} gradients; "
            "expected "
            f"{len(values)}."
        )
    return tuple(
        new if new is None or new is old else checked(hook, new, old)
        for new, old in zip(returned, values, strict=True)
    )
