"""Jacobians three ways, by central differences, backward and forward mode: what gradcheck compares.

A complex output counts as two real functions, its real and its imaginary part, so every Jacobian is
of real functions. Towards a complex input it holds `d/dRe + 1j * d/dIm`, as backward gives it. Rows
are elements of the input, columns elements of the output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy

from pullback.autograd.check import sparse
from pullback.autograd.forward_ad import dual_level, make_dual, unpack_dual
from pullback.core.arrays import Array
from pullback.core.tensor import Tensor, wrap
from pullback.engine.backward import grad

Outputs = Callable[[], Sequence[Tensor]]
Function = Callable[[Sequence[Any]], Sequence[Tensor]]


class Part(NamedTuple):
    """One real function of the inputs: a real output, or one half of a complex one."""

    output: int
    half: str  # "", "real part of " or "imaginary part of "
    unit: complex  # the gradient of the output that asks for this part's derivative

    def of(self, outputs: Sequence[Tensor | None]) -> Array:
        """This part's values, flat, in double precision, in memory of their own."""
        output = outputs[self.output]
        assert output is not None
        array = output._array
        values = array.imag if self.unit == 1j else array.real
        return values.astype(numpy.float64).reshape(-1)

    def __str__(self) -> str:
        return f"{self.half}output {self.output}"


def parts_of(outputs: Sequence[Tensor]) -> list[Part]:
    """The real functions that `outputs` consist of."""
    parts = []
    for number, output in enumerate(outputs):
        if output.dtype.is_complex:
            parts.append(Part(number, "real part of ", 1))
            parts.append(Part(number, "imaginary part of ", 1j))
        else:
            parts.append(Part(number, "", 1))
    return parts


@contextmanager
def moved(array: Array, place: Any, step: Any) -> Iterator[None]:
    """`array[place]` moved by `step`; afterwards the same bits as before, unknown to versions."""
    before = numpy.array(array[place])
    try:
        array[place] = before + step
        yield
    finally:
        array[place] = before


def _slope(
    outputs: Outputs, parts: list[Part], array: Array, place: Any, step: Any, eps: float
) -> list[Array]:
    with moved(array, place, step):
        ahead = outputs()
        above = [part.of(ahead) for part in parts]
    with moved(array, place, -step):
        behind = outputs()
        below = [part.of(behind) for part in parts]
    _check_alike(ahead, behind)
    return [(a - b) / (2 * eps) for a, b in zip(above, below, strict=True)]


def _check_alike(ahead: Sequence[Tensor], behind: Sequence[Tensor]) -> None:
    kinds = [[(tuple(one.shape), one.dtype) for one in side] for side in (ahead, behind)]
    if kinds[0] != kinds[1]:  # AssertionError is what torch raises; `assert` would vanish under -O
        raise AssertionError(
            "gradcheck: shapes or dtypes of the outputs depend on the values of the inputs: "
            f"{kinds[0]} and {kinds[1]} at the two ends of one finite difference."
        )


def movable(input: Tensor) -> tuple[Array, Sequence[int]]:
    """What holds an input's elements, and the number of each: of a sparse one its values."""
    if input._layout is None:
        return input._array, range(input._array.size)
    return sparse.movable(input)


def flat(tensor: Tensor) -> Array:
    """All elements of a gradient in a row."""
    dense = tensor if tensor._layout is None else tensor.to_dense()
    return dense._array.reshape(-1)


def numerical(outputs: Outputs, parts: list[Part], input: Tensor, eps: float) -> list[Array]:
    """For each part, its Jacobian towards `input` by central differences."""
    is_complex = input.dtype.is_complex
    sizes = [part.of(outputs()).size for part in parts]
    dtype = numpy.complex128 if is_complex else numpy.float64
    jacobians = [numpy.zeros((input._array.size, size), dtype) for size in sizes]
    array, rows = movable(input)
    for row, place in zip(rows, numpy.ndindex(array.shape), strict=True):
        for direction in (1, 1j) if is_complex else (1,):
            slopes = _slope(outputs, parts, array, place, eps * direction, eps)
            for jacobian, slope in zip(jacobians, slopes, strict=True):
                jacobian[row] += direction * slope
    return jacobians


def numerical_along(
    outputs: Outputs, parts: list[Part], input: Tensor, u: Array, eps: float
) -> list[Array]:
    """For each part, its derivative along `u`, by one central difference."""
    array, rows = movable(input)
    return _slope(outputs, parts, array, ..., eps * u[list(rows)].reshape(array.shape), eps)


def pulled_back(output: Tensor, inputs: Sequence[Tensor], g: Array) -> tuple[Tensor | None, ...]:
    """Gradients of `inputs` for the gradient `g` of `output`; the graph stays."""
    given = wrap(numpy.asarray(g).astype(output._array.dtype).reshape(output._array.shape))
    found = grad(output, inputs, given, retain_graph=True, allow_unused=True)
    return tuple(found)


def analytical(output: Tensor, part: Part, inputs: Sequence[Tensor]) -> list[Array]:
    """For each input, the part's Jacobian by one backward for each element of the output."""
    size = output._array.size
    jacobians = [numpy.zeros((one._array.size, size), one._array.dtype) for one in inputs]
    for column in range(size):
        g = numpy.zeros(size, output._array.dtype)
        g[column] = part.unit
        for jacobian, found in zip(jacobians, pulled_back(output, inputs, g), strict=True):
            if found is not None:
                jacobian[:, column] = flat(found)
    return jacobians


def analytical_along(output: Tensor, part: Part, inputs: Sequence[Tensor], v: Array) -> list[Array]:
    """For each input, the gradient of the part weighted by `v`, flat."""
    return [
        numpy.zeros(one._array.size, one._array.dtype) if g is None else flat(g)
        for one, g in zip(inputs, pulled_back(output, inputs, part.unit * v), strict=True)
    ]


def dual_inputs(inputs: Sequence[Any], tangents: dict[int, Tensor | None]) -> list[Any]:
    """The inputs as forward mode gets them: those to differentiate by with a tangent, no history.

    `tangents` has those that are not zero; None leaves the tangent out.
    """
    duals = list(inputs)
    for number, one in enumerate(inputs):
        if not (isinstance(one, Tensor) and one.requires_grad):
            continue
        value = one.detach()
        tangent = tangents.get(number, wrap(numpy.zeros_like(value._array)))
        duals[number] = value if tangent is None else make_dual(value, tangent)
    return duals


def pushed_forward(
    function: Function, inputs: Sequence[Any], tangents: dict[int, Tensor | None]
) -> list[Tensor]:
    """The outputs' tangents when the inputs move along `tangents`, those not named not at all."""
    with dual_level():
        pushed = [unpack_dual(output) for output in function(dual_inputs(inputs, tangents))]
    return [
        wrap(numpy.zeros_like(primal._array)) if tangent is None else tangent
        for primal, tangent in pushed
    ]


def forward(
    function: Function, inputs: Sequence[Any], number: int, parts: list[Part]
) -> list[Array]:
    """For each part, its Jacobian towards input `number` by one tangent for each element."""
    array = inputs[number]._array
    outputs = function(inputs)
    jacobians = [numpy.zeros((array.size, part.of(outputs).size), array.dtype) for part in parts]
    for row in range(array.size):
        for direction in (1, 1j) if array.dtype.kind == "c" else (1,):
            u = numpy.zeros(array.size, array.dtype)
            u[row] = direction
            tangents = pushed_forward(function, inputs, {number: wrap(u.reshape(array.shape))})
            for jacobian, part in zip(jacobians, parts, strict=True):
                jacobian[row] += direction * part.of(tangents)
    return jacobians


def forward_along(
    function: Function, inputs: Sequence[Any], number: int, parts: list[Part], u: Array
) -> list[Array]:
    """For each part, its derivative along `u` by one tangent."""
    array = inputs[number]._array
    tangent = wrap(u.astype(array.dtype).reshape(array.shape))
    tangents = pushed_forward(function, inputs, {number: tangent})
    return [part.of(tangents) for part in parts]
