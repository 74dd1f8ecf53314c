"""sparse_jacobian and sparse_hessian: derivatives of which most are zero, in few passes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy

from pullback.core.addresses import as_counts
from pullback.core.arrays import Array
from pullback.core.tensor import Tensor, wrap
from pullback.func.forward_mode import pushed
from pullback.func.reverse_mode import grad, pulled, refuse_complex
from pullback.func.sparsity import SparsityPattern, found_pattern
from pullback.transforms.arguments import Chosen, name_of
from pullback.transforms.batched import Batched, batched
from pullback.transforms.mapping import mapped, over_batch, taken_out

__all__ = ["sparse_hessian", "sparse_jacobian"]


def sparse_jacobian(
    func: Callable[..., Any], argnums: int = 0, *, pattern: SparsityPattern | None = None
) -> Callable[..., Any]:
    """The function that gives the Jacobian of `func` as a sparse COO tensor.

    A first run finds which entries can be other than zero. Columns that share no row are then
    computed together, by as many tangents as there are colours (`SparsityPattern.colours`), or rows
    by as many cotangents where that takes fewer. One more tangent checks the result: a pattern that
    misses an entry raises RuntimeError and is never silently wrong.

    Args:
        func: a function of Tensors that returns one Tensor.
        argnums: which positional argument, a Tensor, the derivatives are taken by.
        pattern: that of an earlier call, `jacobian_sparsity(func)(x)`, or your own. Without it,
            every call finds it anew. With it, the function must have its nonzeros among those of
            the pattern, also where it branches on values.

    Returns:
        A function that gives a coalesced sparse tensor of the output's shape followed by the
        input's.

    >>> import pullback as torch
    >>> x = torch.tensor([1.0, 2.0, 3.0])
    >>> torch.func.sparse_jacobian(lambda x: x[1:] * x[:-1])(x).to_dense()
    tensor([[2., 1., 0.],
            [0., 3., 2.]])
    """
    _check_argnums("sparse_jacobian", argnums)

    @functools.wraps(func)
    def jacobian(*args: Any) -> Any:
        chosen = _chosen("sparse_jacobian", func, argnums, args)
        known = pattern
        if known is None:
            known = found_pattern("sparse_jacobian", func, chosen)
        return _jacobian("sparse_jacobian", func, chosen, known, given=pattern is not None)

    return jacobian


def sparse_hessian(
    func: Callable[..., Any], argnums: int = 0, *, pattern: SparsityPattern | None = None
) -> Callable[..., Any]:
    """The function that gives the Hessian of `func`, which returns one number, as a sparse tensor.

    As `sparse_jacobian` of the gradient, forward over reverse, with a colouring that makes use of
    the symmetry: an arrow-shaped Hessian of any size takes two passes and the check.

    Args:
        func: a function of Tensors whose result is one number (a 0-d Tensor).
        argnums: which positional argument, a Tensor, the derivatives are taken by.
        pattern: that of an earlier call, `hessian_sparsity(func)(x)`, or your own.

    Returns:
        A function that gives a coalesced sparse tensor, the input's shape twice.

    >>> import pullback as torch
    >>> x = torch.tensor([1.0, 2.0, 3.0])
    >>> torch.func.sparse_hessian(lambda x: (x[1:] * x[:-1] ** 2).sum())(x).to_dense()
    tensor([[4., 2., 0.],
            [2., 6., 4.],
            [0., 4., 0.]])
    """
    _check_argnums("sparse_hessian", argnums)
    gradient = grad(func, argnums)

    @functools.wraps(func)
    def hessian(*args: Any) -> Any:
        chosen = _chosen("sparse_hessian", func, argnums, args)
        known = pattern
        if known is None:
            known = found_pattern("sparse_hessian", gradient, chosen, symmetric=True)
        return _jacobian("sparse_hessian", gradient, chosen, known, given=pattern is not None)

    return hessian


def _check_argnums(transform: str, argnums: Any) -> None:
    if not isinstance(argnums, int):
        raise RuntimeError(
            f"{transform}: argnums must be one int, got {argnums!r}; for several inputs, join them "
            "to one tensor and take it apart inside the function."
        )


def _chosen(transform: str, func: Any, argnums: int, args: tuple[Any, ...]) -> Chosen:
    chosen = Chosen(transform, argnums, args)
    if len(chosen.leaves) != 1 or chosen.specs[0] is not None:
        raise RuntimeError(
            f"{transform}({name_of(func)}): argument {argnums} must be a Tensor, got "
            f"{type(args[argnums]).__name__}."
        )
    refuse_complex(transform, "inputs", chosen.leaves)
    if isinstance(chosen.leaves[0], Batched):
        raise RuntimeError(
            f"{transform}({name_of(func)}): sparse results cannot be mapped by vmap. Call it for "
            "each example with one pattern=, or use jacfwd or jacrev inside vmap."
        )
    return chosen


def _jacobian(
    transform: str, func: Any, chosen: Chosen, pattern: SparsityPattern, *, given: bool
) -> Any:
    """The entries of the pattern, from products with one vector for each colour."""
    from pullback.operators.sparse.create import sparse_coo_tensor  # which few need

    leaf = chosen.leaves[0]
    if tuple(leaf.shape) != pattern.in_shape:
        raise RuntimeError(
            f"{transform}({name_of(func)}): the pattern is for inputs of shape {pattern.in_shape}, "
            f"this one has {tuple(leaf.shape)}; find it anew."
        )
    seeds = _seeds(pattern, numpy.float64)
    products = _pulled if pattern.mode == "reverse" else _pushed
    rows = products(transform, func, chosen, pattern, seeds)
    last = rows.shape[0] - 1
    values = rows[:last].reshape(-1)[wrap(pattern.recovery)]
    _check(transform, func, pattern, seeds[-1], values.detach(), rows[last].detach(), given=given)
    shape = (*pattern.out_shape, *pattern.in_shape)
    return sparse_coo_tensor(wrap(pattern.indices), values, shape, is_coalesced=True)


def _seeds(pattern: SparsityPattern, dtype: Any) -> Array:
    """A vector for each colour, and a random one, whose product is known from the others."""
    width = math.prod(pattern.out_shape if pattern.mode == "reverse" else pattern.in_shape)
    made = numpy.zeros((pattern.colours + 1, width), dtype)
    made[pattern.colouring, numpy.arange(width)] = 1
    random = numpy.random.default_rng(width)
    made[-1] = random.uniform(0.5, 1.5, width) * random.choice([-1.0, 1.0], width)
    return made


def _pushed(
    transform: str, func: Any, chosen: Chosen, pattern: SparsityPattern, seeds: Array
) -> Any:
    """The products of the Jacobian with vectors, a row for each."""
    leaf = chosen.leaves[0]
    directions = wrap(seeds.astype(leaf._array.dtype)).reshape((len(seeds), *leaf.shape))
    with mapped(len(seeds), "error", for_tangents=True) as level:
        inside = [batched(directions, 0, level)]
        output, tangent, _ = pushed(
            transform, func, chosen.replaced, chosen.leaves, inside, strict=False, has_aux=False
        )
    _check_output(transform, func, output, pattern)
    return taken_out(tangent, level).reshape((len(seeds), -1))


def _pulled(
    transform: str, func: Any, chosen: Chosen, pattern: SparsityPattern, seeds: Array
) -> Any:
    """The products of the transposed Jacobian with vectors, a row for each."""
    output, pull, _ = pulled(transform, func, chosen, has_aux=False)
    _check_output(transform, func, output, pattern)
    cotangents = wrap(seeds.astype(output._array.dtype)).reshape((len(seeds), *output.shape))
    made = over_batch(lambda one: [pull(one)], [cotangents], len(seeds))[0]
    return made.reshape((len(seeds), -1))


def _check_output(transform: str, func: Any, output: Any, pattern: SparsityPattern) -> None:
    if not isinstance(output, Tensor):
        raise RuntimeError(
            f"{transform}: {name_of(func)} must return one Tensor, got {type(output).__name__}."
        )
    refuse_complex(transform, "outputs", [output])
    if tuple(output.shape) != pattern.out_shape:
        raise RuntimeError(
            f"{transform}: {name_of(func)} returned shape {tuple(output.shape)}, the pattern is "
            f"for {pattern.out_shape}; find it anew."
        )


def _check(
    transform: str,
    func: Any,
    pattern: SparsityPattern,
    seed: Array,
    values: Tensor,
    product: Tensor,
    *,
    given: bool,
) -> None:
    """Refuse a result whose product with a random vector is not that of the function."""
    entries = numpy.asarray(values._array, numpy.float64)
    wanted = numpy.asarray(product._array, numpy.float64)
    rows, across = pattern.rows, pattern.columns
    if pattern.mode == "reverse":
        rows, across = across, rows
    terms = entries * seed[across]
    total = numpy.bincount(as_counts(rows), terms, wanted.size)
    scale = numpy.bincount(as_counts(rows), numpy.abs(terms), wanted.size)
    allowed = float(numpy.finfo(values._array.dtype).eps) ** (1 / 3)
    largest = scale[numpy.isfinite(scale)].max(initial=0.0)
    with numpy.errstate(invalid="ignore"):
        close = numpy.abs(total - wanted) <= allowed * (scale + allowed * largest)
    wrong = ~(close | ~numpy.isfinite(scale))
    if not wrong.any():
        return
    why = (
        "The pattern was given: the function branches on values, or uses other constants than when "
        "it was found. Find it anew, or leave pattern= away."
        if given
        else "Part of the function is computed where no operator is seen (NumPy, a custom "
        "Function), or it draws random numbers. Give pattern= yourself, or use jacfwd or jacrev."
    )
    side = "column" if pattern.mode == "reverse" else "row"
    raise RuntimeError(
        f"{transform}({name_of(func)}): the sparsity pattern misses nonzeros, in "
        f"{int(wrong.sum())} {side}s, the first {int(numpy.argmax(wrong))}. {why}"
    )
