"""laplacian and hessian_diagonal: parts of the Hessian, without the whole of it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from operator import add
from typing import Any

from pullback.core.captured import Scope
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import TreeSpec, tree_flatten, tree_unflatten
from pullback.func.holomorphic import check_holomorphic, complex_inputs
from pullback.func.taylor import expanded
from pullback.operators.create.sizes import zeros_like
from pullback.operators.shape.joining import cat, stack
from pullback.transforms.arguments import Chosen, name_of
from pullback.transforms.basis import basis, split_columns
from pullback.transforms.batched import batched
from pullback.transforms.curvature import CurvatureLevel
from pullback.transforms.mapping import mapped, over_batch, taken_out
from pullback.transforms.pushing import Pushing

__all__ = ["hessian_diagonal", "laplacian"]


def laplacian(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    with_gradient: bool = False,
    chunk_size: int | None = None,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The function that gives the Laplacian of `func`: the sum of its second derivatives.

    The forward Laplacian: one run of `func`, in which every tensor carries its derivatives by all
    input elements and its own Laplacian. No Hessian is made, nothing is kept for a backward pass.

    Args:
        func: a function of Tensors; its result may have any shape, and each element has its own
            Laplacian.
        argnums: which positional arguments the derivatives are taken by, all their elements
            together.
        with_gradient: return `(value, jacobian, laplacian)`, which the same run gives.
        chunk_size: how many input elements to go by at a time; less memory, more runs.
        holomorphic: for complex inputs, say that `func` is holomorphic; derivatives are then
            complex ones. RuntimeError is raised where it is not so.

    >>> import pullback as torch
    >>> x = torch.tensor([1.0, 2.0, 3.0])
    >>> torch.func.laplacian(lambda x: (x ** 3).sum())(x)  # 6 * (1 + 2 + 3)
    tensor(36.)
    >>> points = torch.tensor([[0.0, 1.0], [2.0, 3.0]])
    >>> torch.func.vmap(torch.func.laplacian(lambda p: p[0] ** 2 * p[1]))(points)
    tensor([2., 6.])
    """
    _check_chunk("laplacian", chunk_size)

    @functools.wraps(func)
    def summed(*args: Any) -> Any:
        chosen = Chosen("laplacian", argnums, args)
        if complex_inputs("laplacian", func, chosen.leaves, holomorphic=holomorphic):
            check_holomorphic("laplacian", func, chosen)
        sizes = [math.prod(leaf._array.shape) for leaf in chosen.leaves]
        parts = [
            _curved(func, chosen, start, count) for start, count in _chunks(sum(sizes), chunk_size)
        ]
        outputs, spec, *_ = parts[0]
        totals = [functools.reduce(add, each) for each in zip(*(p[3] for p in parts), strict=True)]
        result = tree_unflatten(totals, spec)
        if not with_gradient:
            return result
        blocks = _blocks([part[2] for part in parts], sizes, chosen)
        return tree_unflatten(outputs, spec), tree_unflatten(blocks, spec), result

    return summed


def _curved(
    func: Any, chosen: Chosen, start: int, count: int
) -> tuple[list[Any], TreeSpec, list[Any], list[Any]]:
    """Outputs and their structure; for each its derivatives by some elements, and the sum."""
    with mapped(count + 1, "same", for_tangents=True) as maps:
        # One example more than there are directions: the sum of second derivatives, 0 of an input.
        units = [
            batched(cat([one, leaf.new_zeros((1, *leaf.shape))]), 0, maps)
            for one, leaf in zip(basis(chosen.leaves, start, count), chosen.leaves, strict=True)
        ]
        scope = Scope(func, chosen.args)
        pushing = Pushing("laplacian", chosen.leaves, units, scope, CurvatureLevel(maps))
        with pushing as inside:
            outputs, spec = tree_flatten(func(*chosen.replaced(inside)))
            for one in outputs:
                if not isinstance(one, Tensor):
                    raise RuntimeError(
                        f"laplacian: {name_of(func)} must return only Tensors, found "
                        f"{type(one).__name__}."
                    )
            found = [pushing.tangent_or_zeros(one) for one in outputs]
    whole = [taken_out(one, maps) for one in found]
    return outputs, spec, [one[:count] for one in whole], [one[count] for one in whole]


def hessian_diagonal(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    chunk_size: int | None = None,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The function that gives the diagonal of the Hessian of `func`.

    Those are the second derivatives by each input element alone: forward mode of order 2 (`jet`)
    along all coordinate axes at once; the others are not computed. For a function whose Hessian is
    sparse, `sparse_hessian` may take fewer runs.

    Args:
        func: a function of Tensors; of a result with a shape, each element has its own diagonal.
        argnums: which positional arguments the derivatives are taken by.
        chunk_size: how many input elements to go by at a time; less memory, more runs.
        holomorphic: for complex inputs, say that `func` is holomorphic; derivatives are then
            complex ones. RuntimeError is raised where it is not so.

    Returns:
        A function that gives, for each output, a Tensor of the output's shape followed by the
        input's; of several inputs a tuple, or their structure, of these.

    >>> import pullback as torch
    >>> torch.func.hessian_diagonal(lambda x: (x ** 3).sum() + x.prod())(torch.tensor([1.0, 2.0]))
    tensor([ 6., 12.])
    """
    _check_chunk("hessian_diagonal", chunk_size)

    @functools.wraps(func)
    def diagonal(*args: Any) -> Any:
        chosen = Chosen("hessian_diagonal", argnums, args)
        if complex_inputs("hessian_diagonal", func, chosen.leaves, holomorphic=holomorphic):
            check_holomorphic("hessian_diagonal", func, chosen)
        sizes = [math.prod(leaf._array.shape) for leaf in chosen.leaves]
        specs: list[TreeSpec] = []

        def along(*direction: Any) -> list[Any]:
            terms = [stack([one, zeros_like(one)]) for one in direction]
            _, spec, rows = expanded(
                "hessian_diagonal", func, chosen.replaced, chosen.leaves, terms
            )
            specs.append(spec)
            return [one[1] * 2 for one in rows]

        runs = [
            over_batch(along, basis(chosen.leaves, start, count), count, for_tangents=True)
            for start, count in _chunks(sum(sizes), chunk_size)
        ]
        return tree_unflatten(_blocks(runs, sizes, chosen), specs[0])

    return diagonal


def _blocks(runs: list[list[Any]], sizes: list[int], chosen: Chosen) -> list[Any]:
    """For each output what its chunks, examples in front, are by the inputs."""
    made = []
    for each in zip(*runs, strict=True):
        rows = cat(each) if len(each) > 1 else each[0]
        made.append(chosen.structured(split_columns(rows.movedim(0, -1), sizes, chosen.leaves)))
    return made


def _check_chunk(transform: str, chunk_size: int | None) -> None:
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"{transform}: chunk_size must be positive or None, got {chunk_size}.")


def _chunks(total: int, size: int | None) -> list[tuple[int, int]]:
    """(start, count) of parts of so many elements; one empty part if there are none."""
    step = max(total if size is None else size, 1)
    return [(start, min(step, total - start)) for start in range(0, max(total, 1), step)]
