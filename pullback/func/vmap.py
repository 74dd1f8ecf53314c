"""vmap: a function of one example becomes a function of a batch, without a loop."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import broadcast_prefix, tree_flatten, tree_unflatten
from pullback.func.nested import over_components
from pullback.operators.random.generator import default_generator
from pullback.operators.shape.joining import cat
from pullback.transforms.arguments import name_of
from pullback.transforms.batched import Batched
from pullback.transforms.mapping import entered, mapped, taken_out

__all__ = ["vmap"]

_RANDOMNESS = ("error", "different", "same")


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Map `func` over a dimension of its arguments; keyword arguments are shared by all examples.

    `func` runs once, on tensors that hide the mapped dimension. `in_dims` says which that is, None
    for what is not mapped, and `out_dims` where it goes; both may be nested as the arguments are.

    >>> import pullback as torch
    >>> torch.vmap(torch.dot)(torch.ones(3, 2), torch.ones(3, 2))
    tensor([2., 2., 2.])
    """
    if randomness not in _RANDOMNESS:
        raise RuntimeError(
            f"vmap: randomness must be 'error', 'different' or 'same', got {randomness!r}."
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size must be positive or None, got {chunk_size}.")

    @functools.wraps(func)
    def mapped_function(*args: Any, **kwargs: Any) -> Any:
        alike = _alike(in_dims, args) if type(in_dims) is int else None
        leaves, spec, dims, size = alike or checked_inputs(func, in_dims, args)
        if alike is None and any(getattr(leaf, "is_nested", False) for leaf in leaves):
            return over_components(func, leaves, spec, dims, out_dims, kwargs)
        if chunk_size is not None and chunk_size < size:
            lengths = [min(chunk_size, size - at) for at in range(0, size, chunk_size)]
            return in_chunks(func, leaves, spec, dims, out_dims, randomness, lengths, kwargs)
        return _run(func, leaves, spec, dims, out_dims, randomness, size, kwargs)

    return mapped_function


def checked_inputs(
    func: Any, in_dims: Any, args: tuple[Any, ...]
) -> tuple[list[Any], Any, list[int | None], int]:
    """The leaves of the arguments, their structure, the mapped dimension of each, and its size."""
    where = f"vmap({name_of(func)}, in_dims={in_dims!r})"
    if not isinstance(in_dims, int | tuple):
        raise ValueError(
            f"{where}: in_dims must be an int or a tuple that is nested as the arguments are, got "
            f"{type(in_dims).__name__}."
        )
    if not args:
        raise ValueError(
            f"{where}: no positional arguments were given, so there is nothing to map."
        )
    leaves, spec = tree_flatten(args)
    dims = broadcast_prefix(in_dims, args)
    if dims is None:
        raise ValueError(
            f"{where}: in_dims does not fit the structure of the arguments, {spec}. Give an int, "
            "or a tuple with an entry for each argument, nested as that is."
        )
    checked = [_input_dim(where, leaf, dim) for leaf, dim in zip(leaves, dims, strict=True)]
    sizes = [leaf.shape[dim] for leaf, dim in zip(leaves, checked, strict=True) if dim is not None]
    if not sizes:
        raise ValueError(f"{where}: in_dims maps no tensor at all; at least one must be mapped.")
    if len(set(sizes)) > 1:
        raise ValueError(
            f"{where}: all mapped dimensions must have one size, got {sizes}. Check in_dims."
        )
    return leaves, spec, checked, sizes[0]


def _alike(dim: int, args: tuple[Any, ...]) -> tuple[list[Any], Any, list[int | None], int] | None:
    """As `checked_inputs`, for tensors that are all mapped along `dim`, without a structure.

    None where more is to be looked at.
    """
    size = None
    for arg in args:
        if arg.__class__ is not Tensor:
            return None
        shape = arg._array.shape
        if not 0 <= dim < len(shape) or (size is not None and shape[dim] != size):
            return None
        size = shape[dim]
    return None if size is None else (list(args), None, [dim] * len(args), size)


def _input_dim(where: str, leaf: Any, dim: Any) -> int | None:
    if dim is None:
        return None
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise ValueError(f"{where}: in_dims must consist of ints and None, not {dim!r}.")
    if not isinstance(leaf, Tensor):
        raise ValueError(
            f"{where}: in_dims is {dim} for an argument of type {type(leaf).__name__}; only "
            "Tensors can be mapped. Use None there."
        )
    if not -leaf.ndim <= dim < leaf.ndim:
        raise ValueError(
            f"{where}: in_dims is {dim} for a Tensor of {leaf.ndim} dimensions; it must be between "
            f"{-leaf.ndim} and {leaf.ndim - 1}."
        )
    return dim % leaf.ndim


def _run(
    func: Any,
    leaves: list[Any],
    spec: Any,
    dims: list[int | None],
    out_dims: Any,
    randomness: str,
    size: int,
    kwargs: dict[str, Any],
) -> Any:
    with mapped(size, randomness) as level:
        inside = [entered(leaf, dim, level) for leaf, dim in zip(leaves, dims, strict=True)]
        # Without a structure the leaves are the arguments.
        output = func(*(inside if spec is None else tree_unflatten(inside, spec)), **kwargs)
    if output.__class__ is Batched and type(out_dims) is int:
        return placed(func, out_dims, output, out_dims, level)
    results, out_spec = tree_flatten(output)
    made = [
        placed(func, out_dims, result, dim, level)
        for result, dim in zip(results, _output_dims(func, out_dims, output), strict=True)
    ]
    return tree_unflatten(made, out_spec)


def _output_dims(func: Any, out_dims: Any, output: Any) -> list[Any]:
    where = f"vmap({name_of(func)}, out_dims={out_dims!r})"
    if isinstance(output, Tensor) and isinstance(out_dims, tuple) and len(out_dims) == 1:
        out_dims = out_dims[0]
    for dim in tree_flatten(out_dims)[0]:
        if dim is not None and (not isinstance(dim, int) or isinstance(dim, bool)):
            raise ValueError(f"{where}: out_dims must consist of ints and None, found {dim!r}.")
    dims = broadcast_prefix(out_dims, output)
    if dims is None:
        raise ValueError(
            f"{where}: out_dims has the structure {tree_flatten(out_dims)[1]}, the function "
            f"returned {tree_flatten(output)[1]}; they must fit."
        )
    return dims


def placed(func: Any, out_dims: Any, result: Any, dim: int | None, level: Any) -> Any:
    """All examples of a result, along the dimension that out_dims names for it."""
    if result.__class__ is Batched and result.level is level and dim == result.bdim:
        return result.value
    where = f"vmap({name_of(func)}, out_dims={out_dims!r})"
    if dim is None:
        if isinstance(result, Batched) and result.level is level:
            raise ValueError(
                f"{where}: out_dims is None for a result that differs between examples. Give the "
                "dimension along which they are to be stacked."
            )
        return result
    if not isinstance(result, Tensor):
        raise ValueError(
            f"{where}: {name_of(func)} must return Tensors, got {type(result).__name__}. Use None "
            "in out_dims for values that are the same for all examples."
        )
    ndim = _ndim(result, level) + 1
    if not -ndim <= dim < ndim:
        raise IndexError(
            f"{where}: out_dims {dim} is out of range for a result of {ndim} dimensions, the "
            f"mapped one included; use {-ndim} to {ndim - 1}."
        )
    return taken_out(result, level, dim % ndim)


def _ndim(result: Any, level: Any) -> int:
    if isinstance(result, Batched) and result.level is level:
        return result.value.ndim - 1
    return int(result.ndim)


# Chunks -------------------------------------------------------------------------------------------


def in_chunks(
    func: Any,
    leaves: list[Any],
    spec: Any,
    dims: list[int | None],
    out_dims: Any,
    randomness: str,
    lengths: list[int],
    kwargs: dict[str, Any],
) -> Any:
    """Map over parts of the batch, one after another, and join what they give."""
    state = _random_state() if randomness == "same" else None
    runs, out_spec, out = [], None, None
    start = 0
    for length in lengths:
        part = [
            leaf if dim is None else leaf.narrow(dim, start, length)
            for leaf, dim in zip(leaves, dims, strict=True)
        ]
        if state is not None:
            _restore(state)
        out = _run(func, part, spec, dims, out_dims, randomness, length, kwargs)
        start += length
        flat, out_spec = tree_flatten(out)
        runs.append(flat)
    joined = []
    for column, dim in zip(zip(*runs, strict=True), _output_dims(func, out_dims, out), strict=True):
        joined.append(column[0] if dim is None else cat(column, dim))
    return tree_unflatten(joined, out_spec)  # type: ignore[arg-type]  # there was at least one chunk


def _random_state() -> Any:
    return default_generator.get_state()


def _restore(state: Any) -> None:
    default_generator.set_state(state)
