"""Which entries of a Jacobian or Hessian can be other than zero: patterns, found by one run."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy

from pullback.core.addresses import as_counts
from pullback.core.arrays import Array
from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor
from pullback.func.reverse_mode import grad
from pullback.transforms.arguments import Chosen, name_of
from pullback.transforms.batched import exposed, hidden
from pullback.transforms.colouring import columns, star
from pullback.transforms.dependence.sets import Sets
from pullback.transforms.dependence.tracing import traced
from pullback.transforms.vmap_level import VmapLevel

__all__ = ["SparsityPattern", "found_pattern", "hessian_sparsity", "jacobian_sparsity"]


class SparsityPattern:
    """Places of a Jacobian that can be other than zero, with a colouring for few passes.

    Found by `jacobian_sparsity` and `hessian_sparsity`, and used again with `pattern=`.

    Args:
        rows: the number of the output element of each place, counted in row-major order.
        columns: the number of its input element.
        out_shape: the shape of the output.
        in_shape: the shape of the input.
        symmetric: whether it is that of a Hessian, which allows for fewer colours.

    Attributes:
        rows, columns: the places, sorted by row, each once.
        mode: "forward" (columns of a colour by one tangent), "reverse" (rows of a colour by one
            cotangent) or "symmetric" (forward, entries recovered by symmetry).
        colours: how many vectors the Jacobian is computed with.
        colouring: the colour of each column, or row.
        passes: `colours`, and one that checks the result.

    >>> import pullback as torch
    >>> pattern = torch.func.SparsityPattern([0, 1, 2], [0, 1, 2], (3,), (3,))
    >>> pattern
    SparsityPattern(3 of 9 entries of shape (3, 3), forward, 1 colours)
    """

    def __init__(
        self, rows: Any, columns: Any, out_shape: Any, in_shape: Any, *, symmetric: bool = False
    ) -> None:
        self.out_shape: tuple[int, ...] = tuple(out_shape)
        self.in_shape: tuple[int, ...] = tuple(in_shape)
        height, width = math.prod(self.out_shape), math.prod(self.in_shape)
        down, across = (numpy.asarray(one, numpy.int64).reshape(-1) for one in (rows, columns))
        outside = [
            one.size and not (one.min() >= 0 and one.max() < size)
            for one, size in ((down, height), (across, width))
        ]
        if down.size != across.size or any(outside):
            raise ValueError(
                f"SparsityPattern: rows must be numbers below {height}, columns below {width}, and "
                "as many of both."
            )
        if symmetric:
            if self.out_shape != self.in_shape:
                raise ValueError("SparsityPattern: a symmetric one has one shape for both sides.")
            down, across = numpy.concatenate([down, across]), numpy.concatenate([across, down])
        self._sets = Sets.of_pairs(height, down, across)
        self.rows: Array = self._sets.owners
        self.columns: Array = self._sets.members
        self._colour(symmetric=symmetric)

    def _colour(self, *, symmetric: bool) -> None:
        height, width = math.prod(self.out_shape), math.prod(self.in_shape)
        across = Sets.of_pairs(width, self.columns, self.rows)
        if symmetric:
            self.mode, self.colouring = "symmetric", star(self._sets)
        else:
            # A column colouring takes as many as the fullest row has, at least.
            self.mode, self.colouring = "forward", columns(self._sets, width)
            used = _count(self.colouring)
            if int(across.counts.max(initial=0)) < used:
                other = columns(across, height)
                if _count(other) < used:
                    self.mode, self.colouring = "reverse", other
        self.colours: int = _count(self.colouring)
        self.recovery: Array = self._recovery()

    def _recovery(self) -> Array:
        """Where each entry is found among the products, those of a colour in a row."""
        height, width = math.prod(self.out_shape), math.prod(self.in_shape)
        if self.mode == "reverse":
            return self.colouring[self.rows] * width + self.columns
        direct = self.colouring[self.columns] * height + self.rows
        if self.mode == "forward":
            return direct
        # Where another of the row has the column's colour, the mirrored entry has it to itself.
        met = numpy.bincount(as_counts(direct), minlength=self.colours * height)
        mirrored = self.colouring[self.rows] * height + self.columns
        made = numpy.where(met[direct] == 1, direct, mirrored)
        assert (met[made] == 1).all(), "no star colouring"
        return made

    @property
    def nnz(self) -> int:
        """The number of entries."""
        return int(self.rows.size)

    @property
    def passes(self) -> int:
        """How many vectors the Jacobian is multiplied with: one for each colour, and the check."""
        return self.colours + 1

    @property
    def indices(self) -> Array:
        """The places as a sparse tensor has them, a row for each dimension of both shapes."""
        down = numpy.unravel_index(self.rows, self.out_shape) if self.out_shape else ()
        across = numpy.unravel_index(self.columns, self.in_shape) if self.in_shape else ()
        dims = len(self.out_shape) + len(self.in_shape)
        return numpy.array([*down, *across], numpy.int64).reshape(dims, self.nnz)

    def __repr__(self) -> str:
        height, width = math.prod(self.out_shape), math.prod(self.in_shape)
        shape = (*self.out_shape, *self.in_shape)
        return (
            f"SparsityPattern({self.nnz} of {height * width} entries of shape {shape}, "
            f"{self.mode}, {self.colours} colours)"
        )


def _count(colouring: Array) -> int:
    return int(colouring.max(initial=-1)) + 1


def jacobian_sparsity(func: Callable[..., Any], argnums: int = 0) -> Callable[..., SparsityPattern]:
    """The function that gives the pattern of the Jacobian of `func`, for `sparse_jacobian`.

    It runs `func` once, and follows through every operator which input elements each element
    depends on. It may name entries that are zero, where an operator's own pattern is not known.

    Args:
        func: a function of Tensors that returns one Tensor.
        argnums: which positional argument, a Tensor, the derivatives are taken by.

    >>> import pullback as torch
    >>> pattern = torch.func.jacobian_sparsity(lambda x: x[1:] - x[:-1])(torch.zeros(1000))
    >>> pattern.nnz, pattern.colours
    (1998, 2)
    """

    @functools.wraps(func)
    def pattern(*args: Any) -> SparsityPattern:
        return found_pattern("jacobian_sparsity", func, Chosen("jacobian_sparsity", argnums, args))

    return pattern


def hessian_sparsity(func: Callable[..., Any], argnums: int = 0) -> Callable[..., SparsityPattern]:
    """The function that gives the pattern of the Hessian of `func`, for `sparse_hessian`.

    Args:
        func: a function of Tensors whose result is one number (a 0-d Tensor).
        argnums: which positional argument, a Tensor, the derivatives are taken by.

    >>> import pullback as torch
    >>> pattern = torch.func.hessian_sparsity(lambda x: (x[0] * x**2).sum())(torch.zeros(1000))
    >>> pattern.nnz, pattern.colours  # an arrow: the first row, the first column, the diagonal
    (2998, 2)
    """

    @functools.wraps(func)
    def pattern(*args: Any) -> SparsityPattern:
        chosen = Chosen("hessian_sparsity", argnums, args)
        return found_pattern("hessian_sparsity", grad(func, argnums), chosen, symmetric=True)

    return pattern


def found_pattern(
    transform: str, func: Any, chosen: Chosen, *, symmetric: bool = False
) -> SparsityPattern:
    """The pattern of a function of one tensor, by a run with a copy of it."""
    if len(chosen.leaves) != 1:
        raise RuntimeError(
            f"{transform}({name_of(func)}): the argument must be one Tensor, got "
            f"{len(chosen.leaves)}."
        )
    leaf = chosen.leaves[0]
    levels = [level for level in get_mode().levels if isinstance(level, VmapLevel)]
    # Inside vmap the run follows the elements of all examples; the pattern is that of all of them.
    whole = exposed(leaf.detach(), levels).clone()
    output, shadow = traced(lambda: func(*chosen.replaced([hidden(whole, levels)])), [whole])
    if not isinstance(output, Tensor):
        raise RuntimeError(
            f"{transform}: {name_of(func)} must return one Tensor, got {type(output).__name__}."
        )
    results = exposed(output, levels)
    sets = shadow.read(results._raw) or Sets.empty(results.numel())
    rows, columns = sets.owners, sets.members
    if levels:
        rows, columns = rows % max(1, output.numel()), columns % max(1, leaf.numel())
    return SparsityPattern(rows, columns, output.shape, leaf.shape, symmetric=symmetric)
