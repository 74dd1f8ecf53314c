"""sparse_jacobian and sparse_hessian: derivatives of which most are zero, in few passes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy

from pullback.core.addresses import as_counts
from pullback.core.arrays import Array
from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor, wrap
from pullback.func.forward_mode import pushed
from pullback.func.holomorphic import check_holomorphic, complex_inputs, not_holomorphic
from pullback.func.reverse_mode import grad, pulled
from pullback.func.sparsity import SparsityPattern, found_pattern
from pullback.operators.create.sizes import ones_like
from pullback.operators.pointwise.arithmetic import conj_physical
from pullback.operators.pointwise.complex import complex
from pullback.transforms.arguments import Chosen, name_of
from pullback.transforms.batched import batched, exposed, hidden
from pullback.transforms.mapping import mapped, over_batch, taken_out
from pullback.transforms.vmap_level import VmapLevel

__all__ = ["sparse_hessian", "sparse_jacobian"]


def sparse_jacobian(
    func: Callable[..., Any],
    argnums: int = 0,
    *,
    pattern: SparsityPattern | None = None,
    holomorphic: bool = False,
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
        holomorphic: for a complex input, say that `func` is holomorphic; the result then has its
            complex derivatives. The check finds it out if it is not so. A real input may have
            complex outputs without it.

    Returns:
        A function that gives a coalesced sparse tensor of the output's shape followed by the
        input's. Inside vmap all examples share one pattern, that of all their nonzeros.

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
        complex_inputs("sparse_jacobian", func, chosen.leaves, holomorphic=holomorphic)
        known = pattern
        if known is None:
            known = found_pattern("sparse_jacobian", func, chosen)
        return _jacobian("sparse_jacobian", func, chosen, known, given=pattern is not None)

    return jacobian


def sparse_hessian(
    func: Callable[..., Any],
    argnums: int = 0,
    *,
    pattern: SparsityPattern | None = None,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The function that gives the Hessian of `func`, which returns one number, as a sparse tensor.

    As `sparse_jacobian` of the gradient, forward over reverse, with a colouring that makes use of
    the symmetry: an arrow-shaped Hessian of any size takes two passes and the check.

    Args:
        func: a function of Tensors whose result is one number (a 0-d Tensor).
        argnums: which positional argument, a Tensor, the derivatives are taken by.
        pattern: that of an earlier call, `hessian_sparsity(func)(x)`, or your own.
        holomorphic: for a complex input, say that `func` is holomorphic; the result then has its
            complex derivatives. RuntimeError is raised where it is not so.

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
    gradient = _complex_gradient(func, argnums) if holomorphic else grad(func, argnums)

    @functools.wraps(func)
    def hessian(*args: Any) -> Any:
        chosen = _chosen("sparse_hessian", func, argnums, args)
        if complex_inputs("sparse_hessian", func, chosen.leaves, holomorphic=holomorphic):
            check_holomorphic("sparse_hessian", func, chosen)
        known = pattern
        if known is None:
            known = found_pattern("sparse_hessian", gradient, chosen, symmetric=True)
        return _jacobian("sparse_hessian", gradient, chosen, known, given=pattern is not None)

    return hessian


def _complex_gradient(func: Any, argnums: int) -> Callable[..., Any]:
    """The derivative of a holomorphic function: what a pass backwards gives is its conjugate."""

    @functools.wraps(func)
    def gradient(*args: Any) -> Any:
        chosen = _chosen("sparse_hessian", func, argnums, args)
        output, pull, _ = pulled("sparse_hessian", func, chosen, has_aux=False)
        if not isinstance(output, Tensor) or output.numel() != 1:
            what = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
            raise RuntimeError(
                f"sparse_hessian: {name_of(func)} must return one number, a Tensor of one element, "
                f"got {what}."
            )
        return conj_physical(pull(ones_like(output)))

    return gradient


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
    seeds = _seeds(pattern, complex_input=leaf.dtype.is_complex)
    products = _pulled if pattern.mode == "reverse" else _pushed
    rows = products(transform, func, chosen, pattern, seeds)
    values = rows[: pattern.colours].reshape(-1)[wrap(pattern.recovery)]
    levels = _mapped_here()
    checks = exposed(rows[pattern.colours :].detach(), levels)
    values = hidden(exposed(values, levels), levels)  # also where no example differs
    _check(transform, func, pattern, seeds, exposed(values.detach(), levels), checks, given=given)
    shape = (*pattern.out_shape, *pattern.in_shape)
    return sparse_coo_tensor(wrap(pattern.indices), values, shape, is_coalesced=True)


def _seeds(pattern: SparsityPattern, *, complex_input: bool) -> Array:
    """A vector for each colour, and a random one, whose product is known from the others.

    Of complex numbers that one once more, times i: its product is so, too, if all is holomorphic.
    """
    width = math.prod(pattern.out_shape if pattern.mode == "reverse" else pattern.in_shape)
    kind = numpy.complex128 if complex_input else numpy.float64
    made = numpy.zeros((pattern.colours + 1 + complex_input, width), kind)
    made[pattern.colouring, numpy.arange(width)] = 1
    random = numpy.random.default_rng(width)
    made[pattern.colours] = random.uniform(0.5, 1.5, width) * random.choice([-1.0, 1.0], width)
    if complex_input:
        made[-1] = 1j * made[-2]
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
    _check_output(transform, func, output, leaf, pattern)
    return taken_out(tangent, level).reshape((len(seeds), -1))


def _pulled(
    transform: str, func: Any, chosen: Chosen, pattern: SparsityPattern, seeds: Array
) -> Any:
    """The products of the transposed Jacobian with vectors, a row for each.

    A pass backwards multiplies with its conjugate; and of a real input it leaves the real part, so
    that of a complex output it takes the vectors times i as well.
    """
    leaf = chosen.leaves[0]
    output, pull, _ = pulled(transform, func, chosen, has_aux=False)
    _check_output(transform, func, output, leaf, pattern)
    in_parts = output.dtype.is_complex and not leaf.dtype.is_complex
    given = numpy.concatenate([seeds, 1j * seeds]) if in_parts else seeds
    cotangents = wrap(given.astype(output._array.dtype)).reshape((len(given), *output.shape))
    made = over_batch(lambda one: [pull(one)], [cotangents], len(given))[0]
    rows = made.reshape((len(given), -1))
    if in_parts:
        return complex(rows[: len(seeds)], rows[len(seeds) :])
    return rows.conj() if leaf.dtype.is_complex else rows


def _check_output(
    transform: str, func: Any, output: Any, leaf: Any, pattern: SparsityPattern
) -> None:
    if not isinstance(output, Tensor):
        raise RuntimeError(
            f"{transform}: {name_of(func)} must return one Tensor, got {type(output).__name__}."
        )
    if leaf.dtype.is_complex and not output.dtype.is_complex:
        raise RuntimeError(
            f"{transform}: {name_of(func)} returned {output.dtype} for a complex input, so it is "
            "not holomorphic. Use torch.view_as_real, or vjp and jvp."
        )
    if tuple(output.shape) != pattern.out_shape:
        raise RuntimeError(
            f"{transform}: {name_of(func)} returned shape {tuple(output.shape)}, the pattern is "
            f"for {pattern.out_shape}; find it anew."
        )


def _mapped_here() -> list[Any]:
    """The vmap levels that the call is inside of."""
    return [level for level in get_mode().levels if isinstance(level, VmapLevel)]


def _check(
    transform: str,
    func: Any,
    pattern: SparsityPattern,
    seeds: Array,
    values: Tensor,
    products: Tensor,
    *,
    given: bool,
) -> None:
    """Refuse a result whose product with a random vector is not that of the function.

    What is mapped by vmap has its examples in front, each with values and products of its own.
    """
    seed = seeds[pattern.colours]
    kind = numpy.complex128 if values.dtype.is_complex else numpy.float64
    wanted = numpy.asarray(products._array, kind)
    wanted = wanted.reshape(math.prod(wanted.shape[:-2]), *wanted.shape[-2:])
    entries = numpy.asarray(values._array, kind).reshape(len(wanted), pattern.nnz)
    rows, across = pattern.rows, pattern.columns
    if pattern.mode == "reverse":
        rows, across = across, rows
    terms = entries * seed[across]
    total = _row_sums(terms, rows, wanted.shape[-1])
    scale = _row_sums(numpy.abs(terms), rows, wanted.shape[-1])
    finite = numpy.isfinite(scale)
    precision = float(numpy.finfo(values._array.dtype).eps) ** (1 / 3)
    largest = scale.max(1, initial=0.0, where=finite)[:, None]
    allowed = precision * (scale + precision * largest)
    with numpy.errstate(invalid="ignore"):
        wrong = finite & ~(numpy.abs(total - wanted[:, 0]) <= allowed)
        turned = wanted.shape[1] > 1 and _turned_wrongly(pattern, wanted, finite, allowed)
    if turned and not wrong.any():
        raise not_holomorphic(transform, func)
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
    missed = wrong.any(0)
    raise RuntimeError(
        f"{transform}({name_of(func)}): the sparsity pattern misses nonzeros, in "
        f"{int(missed.sum())} {side}s, the first {int(numpy.argmax(missed))}. {why}"
    )


def _turned_wrongly(pattern: SparsityPattern, wanted: Array, finite: Array, allowed: Array) -> bool:
    """Whether the product with the vector times i is not i times the product somewhere."""
    # Rows by reverse mode were conjugated, this one with its i.
    factor = -1j if pattern.mode == "reverse" else 1j
    close = numpy.abs(wanted[:, 1] - factor * wanted[:, 0]) <= allowed
    return bool((finite & ~close).any())


def _row_sums(terms: Array, rows: Array, height: int) -> Array:
    """Of each example the terms of each row added up."""
    if terms.dtype.kind == "c":
        made: Array = _row_sums(terms.real, rows, height) + 1j * _row_sums(terms.imag, rows, height)
        return made
    places = as_counts((numpy.arange(len(terms)) * height)[:, None] + rows)
    return numpy.bincount(places.reshape(-1), terms.reshape(-1), len(terms) * height).reshape(
        len(terms), height
    )
