"""grad, grad_and_value, vjp and jacrev: derivatives by a backward pass."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from pullback.core.captured import Scope
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten
from pullback.operators.shape.joining import cat
from pullback.transforms.arguments import Chosen, name_of, split_aux
from pullback.transforms.basis import basis
from pullback.transforms.batched import Batched
from pullback.transforms.mapping import over_batch
from pullback.transforms.reverse import Recording

__all__ = ["grad", "grad_and_value", "jacrev", "vjp"]


def grad(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that computes the gradient of `func`, whose result is a scalar (a 0-d tensor).

    >>> import pullback as torch
    >>> torch.func.grad(lambda x: x ** 3)(torch.tensor(2.0))
    tensor(12.)
    """

    @functools.wraps(func)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        results, _, aux = _grad_and_value(
            "grad", func, argnums, has_aux, args, kwargs, valued=False
        )
        return (results, aux) if has_aux else results

    return gradient


def grad_and_value(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """As `grad`, but returns `(gradient, value)`, or `(gradient, (value, aux))`.

    >>> import pullback as torch
    >>> torch.func.grad_and_value(lambda x: x ** 3)(torch.tensor(2.0))
    (tensor(12.), tensor(8.))
    """

    @functools.wraps(func)
    def gradient_and_value(*args: Any, **kwargs: Any) -> Any:
        results, value, aux = _grad_and_value(
            "grad_and_value", func, argnums, has_aux, args, kwargs
        )
        return results, ((value, aux) if has_aux else value)

    return gradient_and_value


def _grad_and_value(
    transform: str,
    func: Any,
    argnums: Any,
    has_aux: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    valued: bool = True,
) -> tuple[Any, Any, Any]:
    chosen = Chosen(transform, argnums, args)
    recording = Recording(transform, chosen.leaves, Scope(func, (args, kwargs)))
    with recording as inputs:
        result = func(*chosen.replaced(inputs), **kwargs)
        output, aux = split_aux(transform, func, result) if has_aux else (result, None)
        _check_scalar(transform, func, output)
    # Outer derivatives may go through this graph again, so it is kept; it dies with its last user.
    gradients = recording.gradients([output], None, keep=True)
    if has_aux:
        aux = tree_map(recording.released, aux)
    return chosen.structured(gradients), recording.released(output) if valued else None, aux


def _check_scalar(transform: str, func: Any, output: Any) -> None:
    if not isinstance(output, Tensor):
        raise RuntimeError(
            f"{transform}: {name_of(func)} must return one Tensor, got {type(output).__name__}. "
            "For several results use vjp or jacrev, or has_aux=True."
        )
    array = output._array
    if array.dtype.kind == "f" and not array.ndim:
        return
    if output.ndim:
        raise RuntimeError(
            f"{transform}: {name_of(func)} must return a Tensor of no dimensions, got shape "
            f"{tuple(output.shape)}. Reduce it (e.g. with .sum()), or use vjp or jacrev."
        )
    if output.dtype.is_complex:
        raise RuntimeError(
            f"{transform}: {name_of(func)} must return a real number, got {output.dtype}; the "
            "gradient of a complex one is not defined. Take its real part or modulus, or use vjp."
        )


# vjp ----------------------------------------------------------------------------------------------


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """`(output, vjp_fn[, aux])`: `vjp_fn(cotangents)` gives a gradient for each primal.

    `vjp_fn` always returns a tuple, and may be called many times, later and under vmap.

    >>> import pullback as torch
    >>> output, vjp_fn = torch.func.vjp(torch.sin, torch.tensor(0.0))
    >>> vjp_fn(torch.tensor(2.0))
    (tensor(2.),)
    """
    output, pull, aux = pulled(
        "vjp", func, Chosen("vjp", tuple(range(len(primals))), primals), has_aux=has_aux
    )
    return (output, pull, aux) if has_aux else (output, pull)


def pulled(transform: str, func: Any, chosen: Chosen, *, has_aux: bool) -> tuple[Any, Any, Any]:
    """Run a function; its output, what takes cotangents to gradients, and aux."""
    recording, outputs, spec, aux = _recorded(transform, func, chosen, has_aux=has_aux)
    released = _tree([recording.released(one) for one in outputs], spec)

    # The two others are torch's: here a graph may always be used again, and is recorded by itself.
    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: Any = None) -> Any:
        given = _checked_cotangents(transform, cotangents, outputs, spec)
        return chosen.structured(recording.gradients(outputs, given, keep=True))

    return released, vjp_fn, aux


def _recorded(
    transform: str, func: Any, chosen: Chosen, *, has_aux: bool
) -> tuple[Recording, list[Any], TreeSpec | None, Any]:
    """Run a function in a derivative of its own; its outputs, their structure, and aux."""
    recording = Recording(transform, chosen.leaves, Scope(func, chosen.args))
    with recording as inputs:
        result = func(*chosen.replaced(inputs))
        output, aux = split_aux(transform, func, result) if has_aux else (result, None)
        outputs, spec = _checked_outputs(transform, func, output)
    if has_aux:
        aux = tree_map(recording.released, aux)
    return recording, outputs, spec, aux


def _tree(leaves: list[Any], spec: TreeSpec | None) -> Any:
    """Leaves in a structure; without one there is one, which is all."""
    return leaves[0] if spec is None else tree_unflatten(leaves, spec)


def _checked_outputs(transform: str, func: Any, output: Any) -> tuple[list[Any], TreeSpec | None]:
    """The tensors that a function returned, and their structure, None for a single one."""
    outputs, spec = [output], None
    if output.__class__ is not Tensor and output.__class__ is not Batched:
        outputs, spec = tree_flatten(output)
    if not outputs:
        raise RuntimeError(f"{transform}: {name_of(func)} returned no Tensor to differentiate.")
    for one in outputs:
        if not isinstance(one, Tensor):
            raise RuntimeError(
                f"{transform}: {name_of(func)} must return only Tensors, found "
                f"{type(one).__name__}; use has_aux=True for other results."
            )
        if not one.dtype.is_differentiable:
            raise RuntimeError(
                f"{transform}: {name_of(func)} must return floating-point or complex Tensors, "
                f"found {one.dtype}; use has_aux=True for other results."
            )
    return outputs, spec


def _checked_cotangents(
    transform: str, cotangents: Any, outputs: list[Any], spec: TreeSpec | None
) -> list[Any]:
    given = [cotangents]
    if spec is not None or not isinstance(cotangents, Tensor):
        given, given_spec = tree_flatten(cotangents)
        spec = tree_flatten(outputs[0])[1] if spec is None else spec
        if given_spec != spec:
            raise RuntimeError(
                f"{transform}: the cotangents have the structure {given_spec}, the function "
                f"returned {spec}; they must be equal."
            )
    for one, output in zip(given, outputs, strict=True):
        if not isinstance(one, Tensor) or one._array.shape != _shape(output):
            got = tuple(one.shape) if isinstance(one, Tensor) else type(one).__name__
            raise RuntimeError(
                f"{transform}: a cotangent of shape {got} for an output of shape "
                f"{_shape(output)}; they must be equal."
            )
    return [
        one if one.dtype is output.dtype else one.to(output.dtype)
        for one, output in zip(given, outputs, strict=True)
    ]


def _shape(output: Any) -> tuple[int, ...]:
    shape: tuple[int, ...] = output._array.shape
    return shape


# jacrev -------------------------------------------------------------------------------------------


def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """A function that computes the Jacobian of `func`, in one backward pass for all rows.

    `chunk_size` limits how many rows are computed together; 1 does without vmap.

    >>> import pullback as torch
    >>> torch.func.jacrev(torch.sin)(torch.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"jacrev: chunk_size must be positive or None, got {chunk_size}.")

    @functools.wraps(func)
    def jacobian(*args: Any) -> Any:
        chosen = Chosen("jacrev", argnums, args)
        refuse_complex("jacrev", "inputs", chosen.leaves)
        recording, outputs, spec, aux = _recorded("jacrev", func, chosen, has_aux=has_aux)
        refuse_complex("jacrev", "outputs", outputs)
        rows = _rows(recording, outputs, chosen, chunk_size)
        blocks = []
        start = 0
        for one in outputs:
            shape = _shape(one)
            count = math.prod(shape)
            own = rows if len(outputs) == 1 else [leaf.narrow(0, start, count) for leaf in rows]
            # Else rows are what they shall be; two inputs may have one gradient.
            if len(shape) != 1 or len(set(map(id, own))) < len(own):
                own = [_as_block(leaf, shape) for leaf in own]
            blocks.append(chosen.structured(own))
            start += count
        result = _tree(blocks, spec)
        return (result, aux) if has_aux else result

    return jacobian


def refuse_complex(transform: str, side: str, tensors: list[Any]) -> None:
    """Jacobians of complex functions are not one matrix."""
    for index, one in enumerate(tensors):
        if one._array.dtype.kind not in "fV" and one.dtype.is_complex:
            raise RuntimeError(
                f"{transform}: {side}[{index}] is {one.dtype}; Jacobians are defined here for real "
                "tensors. Use torch.view_as_real, or vjp and jvp."
            )


def _as_block(rows: Any, shape: tuple[int, ...]) -> Any:
    """Rows, one for each element of an output of this shape, as its part of the Jacobian."""
    if not shape and len(rows) == 1:
        return rows.squeeze(0)
    return rows.reshape((*shape, *rows.shape[1:]))


def _rows(
    recording: Recording, outputs: list[Any], chosen: Chosen, chunk_size: int | None
) -> list[Any]:
    """For each input leaf, the gradients of all output elements, stacked."""
    total = 0
    for one in outputs:
        total += math.prod(_shape(one))
    if total == 0:
        return [leaf.new_zeros((0, *leaf.shape)) for leaf in chosen.leaves]

    def gradients(*seeds: Any) -> list[Any]:
        return recording.gradients(outputs, seeds, keep=True)

    if total == 1:
        return [g.unsqueeze(0) for g in recording.gradients(outputs, None, keep=True)]
    step = total if chunk_size is None else chunk_size
    runs = []
    for start in range(0, total, step):
        seeds = basis(outputs, start, min(step, total - start))
        if step == 1:
            one = gradients(*(seed.squeeze(0) for seed in seeds))
            runs.append([g.unsqueeze(0) for g in one])
        else:
            runs.append(over_batch(gradients, seeds, min(step, total - start)))
    if len(runs) == 1:
        return runs[0]
    return [cat(parts) for parts in zip(*runs, strict=True)]
