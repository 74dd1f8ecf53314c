"""What gradcheck checks, one method each, and what it says when a check fails.

How the two Jacobians are computed is in jacobians.py; arguments and defaults are in gradcheck.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy

from pullback.autograd.check import jacobians, sparse
from pullback.autograd.check.jacobians import Part, parts_of
from pullback.autograd.gradcheck import GradcheckError
from pullback.core import origin
from pullback.core.arrays import Array
from pullback.core.node import OperatorNode
from pullback.core.sequence import numbering
from pullback.core.tensor import Tensor, wrap
from pullback.core.view import edge_of
from pullback.engine.backward import grad
from pullback.transforms.mapping import over_batch


def tupled(values: Any) -> tuple[Any, ...]:
    """One value, a tuple or a list, as a tuple."""
    return tuple(values) if isinstance(values, tuple | list) else (values,)


def is_checked(value: Any) -> bool:
    """Whether gradcheck differentiates by this input."""
    return isinstance(value, Tensor) and value.requires_grad


def differentiable(outputs: Sequence[Any]) -> list[Tensor]:
    """The outputs that require grad."""
    return [output for output in tensors_of(outputs) if output.requires_grad]


def tensors_of(outputs: Sequence[Any]) -> list[Tensor]:
    """The outputs, each of which must be a tensor."""
    for number, output in enumerate(outputs):
        if not isinstance(output, Tensor):
            raise TypeError(
                f"gradcheck: output {number} of the function is a {type(output).__name__}. It must "
                "return a Tensor or a tuple of Tensors; leave other values out."
            )
    return list(outputs)


def _checked_inputs(inputs: tuple[Any, ...]) -> dict[int, Tensor]:
    """The inputs to differentiate by, under their number among all."""
    checked = {number: one for number, one in enumerate(inputs) if is_checked(one)}
    if not checked:
        raise ValueError(
            "gradcheck: none of the inputs is a tensor that requires grad, so there is nothing to "
            "check. Set requires_grad=True on the tensors to differentiate by."
        )
    for number, one in checked.items():
        array = one._array
        if array.dtype not in (numpy.float64, numpy.complex128):
            warnings.warn(
                f"gradcheck: input {number} has dtype {one.dtype}. Finite differences need float64 "
                "or complex128; with less precision this check will most likely fail.",
                UserWarning,
                stacklevel=origin.stacklevel(),
            )
        if one._layout is not None:
            continue
        sides = zip(array.shape, array.strides, strict=True)
        if array.size and any(size > 1 and stride == 0 for size, stride in sides):
            raise RuntimeError(
                f"gradcheck: input {number} (shape {array.shape}) is expanded: several of its "
                "elements are one place in memory and cannot be moved one by one. Pass "
                "input.contiguous()."
            )
    return checked


class Asked(NamedTuple):
    """Which checks a call of gradcheck asks for."""

    backward: bool
    forward: bool
    batched: bool
    batched_forward: bool
    undefined: bool
    fast: bool


@dataclass
class Check:
    """One call of gradcheck: the function, its inputs and how close is close enough."""

    func: Callable[..., Any]
    inputs: tuple[Any, ...]
    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    masked: bool
    grad_dtypes: bool
    # The inputs to differentiate by, under their number among all.
    checked: dict[int, Tensor] = field(init=False)
    # Which of the outputs require grad.
    places: list[int] = field(init=False)

    def run(self, asked: Asked) -> None:
        """All that is asked for; GradcheckError at the first failure."""
        self.checked = _checked_inputs(self.inputs)
        everything = tensors_of(tupled(self.func(*self.inputs)))
        self.places = [place for place, one in enumerate(everything) if one.requires_grad]
        outputs = [everything[place] for place in self.places]
        if not outputs:
            self.compare_with_zero()
            return
        compare = self.compare_projections if asked.fast else self.compare_jacobians
        compare(outputs, asked)
        if asked.forward and asked.undefined:
            self.check_undefined_tangents()
        if asked.batched_forward:
            self.check_batched_tangents()
        if not asked.backward:
            return
        if asked.batched:
            self.check_batched_gradients(outputs)
        self.check_zero_gradients()
        if asked.undefined:
            self.check_undefined_gradients()

    def outputs(self, inputs: Sequence[Any] | None = None) -> list[Tensor]:
        """Call the function; its outputs that require grad."""
        made = tupled(self.func(*(self.inputs if inputs is None else inputs)))
        sparse.refuse_sparse(tensors_of(made))
        return differentiable(made)

    def pushed(self, inputs: Sequence[Any]) -> list[Tensor]:
        """Call the function on dual tensors without history: the same outputs as in `outputs`."""
        everything = tensors_of(tupled(self.func(*inputs)))
        if len(everything) <= self.places[-1]:
            raise GradcheckError(
                f"gradcheck: in forward mode the function returned {len(everything)} outputs, "
                "fewer than before. There its inputs are dual tensors that do not require grad."
            )
        return [everything[place] for place in self.places]

    def compare_with_zero(self) -> None:
        """Nothing requires grad, so nothing may depend on the inputs."""

        def everything() -> list[Tensor]:
            return tensors_of(tupled(self.func(*self.inputs)))

        parts = parts_of(everything())
        for number, one in self.checked.items():
            found = jacobians.numerical(everything, parts, one, self.eps)
            for part, jacobian in zip(parts, found, strict=True):
                if numpy.any(jacobian != 0):
                    raise GradcheckError(
                        f"gradcheck: no output requires grad, yet {part} changes with input "
                        f"{number}; finite differences give\n{jacobian}\nDoes the function detach, "
                        "leave the graph through NumPy, or run under no_grad?"
                    )

    def compare_jacobians(self, outputs: list[Tensor], asked: Asked) -> None:
        """Every element of every Jacobian; each one by backward is computed twice."""
        parts = parts_of(outputs)
        wanted = list(self.checked.values())
        with sparse.all_specified(self.checked, masked=self.masked):
            expected = [jacobians.numerical(self.outputs, parts, one, self.eps) for one in wanted]
        for column, number in enumerate(self.checked if asked.forward else ()):
            found = jacobians.forward(self.pushed, self.inputs, number, parts)
            for part, a, n in zip(parts, found, expected[column], strict=True):
                if not self.close(a, n, self.atol):
                    raise GradcheckError(_mismatch(part, number, a, n, "forward mode"))
        for index, part in enumerate(parts if asked.backward else ()):
            output = outputs[part.output]
            self.check_attributes(output, part)
            first = jacobians.analytical(output, part, wanted)
            second = jacobians.analytical(output, part, wanted)
            for column, number in enumerate(self.checked):
                a, n = first[column], expected[column][index]
                if not self.close(a, n, self.atol):
                    raise GradcheckError(_mismatch(part, number, a, n, "backward"))
                self.check_same(part, number, a, second[column])

    def compare_projections(self, outputs: list[Tensor], asked: Asked) -> None:
        """One number for each Jacobian: between a random direction and random weights."""
        draw = numpy.random.default_rng(0)  # a generator of its own: the user's is left alone
        parts = parts_of(outputs)
        directions = {n: _direction(draw, one) for n, one in self.checked.items()}
        weights = [_unit_vector(draw, outputs[part.output]._array.real) for part in parts]
        with sparse.all_specified(self.checked, masked=True):  # directions are along specified ones
            slopes = {
                number: jacobians.numerical_along(
                    self.outputs, parts, one, directions[number], self.eps
                )
                for number, one in self.checked.items()
            }

        def compare(index: int, number: int, a: Array, how: str) -> None:
            u, v = directions[number], weights[index]
            n = (slopes[number][index] * v).sum()
            # The errors that atol allows each element add up along u and v.
            atol = self.atol * numpy.abs(u).sum() * v.sum()
            if u.size and v.size and not self.close(a, n, atol):
                message = f"gradcheck (fast mode): {parts[index]}, input {number}: along a random "
                message += f"direction finite differences give {n} and {how} gives {a}."
                raise GradcheckError(message + self.second_opinion(outputs, asked))

        for number in self.checked if asked.forward else ():
            u = directions[number]
            found = jacobians.forward_along(self.pushed, self.inputs, number, parts, u)
            for index, tangent in enumerate(found):
                compare(index, number, (tangent * weights[index]).sum(), "forward mode")
        wanted = list(self.checked.values())
        for index, part in enumerate(parts if asked.backward else ()):
            output, v = outputs[part.output], weights[index]
            self.check_attributes(output, part)
            first = jacobians.analytical_along(output, part, wanted, v)
            second = jacobians.analytical_along(output, part, wanted, v)
            for number, g, again in zip(self.checked, first, second, strict=True):
                compare(index, number, (g.conj() * directions[number]).sum().real, "backward")
                self.check_same(part, number, g, again)

    def second_opinion(self, outputs: list[Tensor], asked: Asked) -> str:
        """What the full comparison says where the fast one failed."""
        try:
            self.compare_jacobians(outputs, asked)
        except GradcheckError as error:
            return f"\nThe full comparison fails too:\n{error}"
        return (
            "\nThe full comparison of every element passes, so the fast one is too strict here: "
            "use fast_mode=False, or a larger atol."
        )

    def close(self, analytical: Array, numerical: Array, atol: float) -> bool:
        """Whether the two agree within the tolerances; NaN agrees with nothing."""
        return bool(numpy.allclose(analytical, numerical, self.rtol, atol))

    def check_same(self, part: Part, number: int, first: Array, second: Array) -> None:
        """Backward must give the same twice."""
        gap = numpy.abs(first - second)
        if gap.size and gap.max() > self.nondet_tol:
            raise GradcheckError(
                f"gradcheck: backward gave two different gradients of {part} with respect to input "
                f"{number}, up to {gap.max()} apart (nondet_tol is {self.nondet_tol}). Function "
                "or backward are not deterministic; fix its seed, or raise nondet_tol if such a "
                "difference is expected."
            )

    def check_attributes(self, output: Tensor, part: Part) -> None:
        """A gradient must have the shape of its input, and its dtype where that is asked."""
        g = numpy.full(output._array.shape, part.unit)
        wanted = list(self.checked.values())
        found = jacobians.pulled_back(output, wanted, g)
        for (number, one), result in zip(self.checked.items(), found, strict=True):
            if result is None:
                continue
            if result.shape != one.shape:
                raise GradcheckError(
                    f"gradcheck: the gradient of input {number} has shape "
                    f"{tuple(result.shape)}, the input has {tuple(one.shape)}."
                )
            if self.grad_dtypes and result.dtype is not one.dtype:
                raise GradcheckError(
                    f"gradcheck: the gradient of input {number} has dtype {result.dtype}, the "
                    f"input has {one.dtype}; backward must return the input's dtype."
                )

    def check_batched_gradients(self, outputs: list[Tensor]) -> None:
        """Two gradients in one batched pass must give what two passes give."""
        wanted = list(self.checked.values())
        for index, output in enumerate(outputs):
            both = _random_pair(output)

            def pull(g: Tensor, output: Tensor = output) -> list[Any]:
                return list(grad(output, wanted, g, retain_graph=True, allow_unused=True))

            try:
                # What draws random numbers there has no derivative that could be compared.
                batched = over_batch(pull, [both], 2, randomness="error")
            except RuntimeError as error:
                raise _batch_failed(f"gradients of output {index}", error) from error
            singles = [jacobians.pulled_back(output, wanted, both._array[k]) for k in range(2)]
            for number, together, *alone in zip(self.checked, batched, *singles, strict=True):
                self.compare_batch(f"gradients of output {index}, input {number}", together, alone)

    def check_undefined_tangents(self) -> None:
        """An input without a tangent must count as one whose tangent is zero."""
        tangents: dict[int, Any] = {
            number: wrap(numpy.array(_random_pair(one)._array[0]))
            for number, one in self.checked.items()
        }
        for number, one in self.checked.items():
            zero = wrap(numpy.zeros_like(one._array))
            found = []
            for given in (zero, None):
                try:
                    found.append(
                        jacobians.pushed_forward(
                            self.pushed, self.inputs, {**tangents, number: given}
                        )
                    )
                except RuntimeError as error:
                    raise GradcheckError(
                        f"gradcheck: forward mode failed with {'no' if given is None else 'a zero'}"
                        f" tangent of input {number}: {error}"
                    ) from error
            for index, (a, b) in enumerate(zip(*found, strict=True)):
                if not numpy.allclose(a._array, b._array, self.rtol, self.atol, equal_nan=True):
                    raise GradcheckError(
                        f"gradcheck: the tangent of output {index} is\n{a._array}\nwith a zero "
                        f"tangent of input {number} and\n{b._array}\nwith none; they must agree."
                    )

    def check_batched_tangents(self) -> None:
        """Two tangents of an input in one batched run must give what two runs give."""
        for number, one in self.checked.items():
            both = _random_pair(one)

            def push(tangent: Tensor, number: int = number) -> list[Tensor]:
                return jacobians.pushed_forward(self.pushed, self.inputs, {number: tangent})

            try:
                batched = over_batch(push, [both], 2, for_tangents=True, randomness="error")
            except RuntimeError as error:
                raise _batch_failed(f"tangents of input {number}", error) from error
            singles = [push(wrap(numpy.array(both._array[k]))) for k in range(2)]
            for index, (together, *alone) in enumerate(zip(batched, *singles, strict=True)):
                self.compare_batch(f"tangents of output {index}, input {number}", together, alone)

    def compare_batch(self, what: str, together: Tensor | None, alone: list[Any]) -> None:
        """Each example of a batch against the same example computed by itself."""
        for k, single in enumerate(alone):
            a = numpy.zeros(()) if together is None else together._array[k]
            b = numpy.zeros(()) if single is None else single._array
            if not numpy.allclose(a, b, self.rtol, self.atol, equal_nan=True):
                raise GradcheckError(
                    f"gradcheck: batched {what}: example {k} is\n{a}\nin a batch and\n{b}\nby "
                    "itself. The batching rule of an operator, or of a custom Function, is wrong."
                )

    def check_zero_gradients(self) -> None:
        """Backward is linear: zero in must give zero out, of the input's kind."""
        outputs = self.outputs()
        zeros = [wrap(numpy.zeros_like(output._array)) for output in outputs]
        wanted = list(self.checked.values())
        found = grad(outputs, wanted, zeros, retain_graph=True, allow_unused=True)
        for (number, one), result in zip(self.checked.items(), found, strict=True):
            if result is None:
                continue
            array = jacobians.flat(result)
            is_zero = numpy.allclose(array, 0) if self.masked else not numpy.any(array != 0)
            if not is_zero:
                raise GradcheckError(
                    f"gradcheck: with zero gradients of the outputs, input {number} gets\n{array}\n"
                    "Backward must be linear in the gradients it is given: multiply by them."
                )
            for what in ("shape", "dtype", "device"):
                got, due = getattr(result, what), getattr(one, what)
                if got != due:
                    raise GradcheckError(
                        f"gradcheck: the gradient of input {number} has {what} {got}, not {due}."
                    )

    def check_undefined_gradients(self) -> None:
        """An output nobody asks about counts as zero: all outputs at once, then each alone."""
        count = len(self.outputs())
        for undefined in [set(range(count)), *({k} for k in range(count) if count > 1)]:
            outputs = [
                _without_gradient(output) if k in undefined else output
                for k, output in enumerate(self.outputs())
            ]
            zeros = [wrap(numpy.zeros_like(output._array)) for output in outputs]
            wanted = list(self.checked.values())
            try:
                found = grad(outputs, wanted, zeros, allow_unused=True)
            except RuntimeError as error:
                _hint_at_undefined()
                raise GradcheckError(
                    f"gradcheck: backward failed when the gradients of outputs {sorted(undefined)} "
                    "were undefined (None). It must treat them as zeros; pass "
                    "check_undefined_grad=False if it never meets them."
                ) from error
            for number, result in zip(self.checked, found, strict=True):
                if result is not None and numpy.any(jacobians.flat(result) != 0):
                    _hint_at_undefined()
                    raise GradcheckError(
                        f"gradcheck: with undefined (None) gradients of outputs "
                        f"{sorted(undefined)} and zeros for the others, input {number} gets\n"
                        f"{jacobians.flat(result)}\nBackward must treat undefined gradients as "
                        "zeros."
                    )


def _hint_at_undefined() -> None:
    warnings.warn(
        "gradcheck: backward is expected to take undefined (None) gradients for zeros. Pass "
        "check_undefined_grad=False if it never meets them.",
        UserWarning,
        stacklevel=origin.stacklevel(),
    )


def _random_pair(tensor: Tensor) -> Tensor:
    """Two random tensors like `tensor`, stacked."""
    draw = numpy.random.default_rng(0)
    shape, dtype = (2, *tensor._array.shape), tensor._array.dtype
    values = draw.uniform(-1, 1, shape)
    if dtype.kind == "c":
        values = values + 1j * draw.uniform(-1, 1, shape)
    return wrap(values.astype(dtype))


def _batch_failed(what: str, error: Exception) -> GradcheckError:
    return GradcheckError(
        f"gradcheck: computing a batch of {what} failed: {error}\nThe function, or its backward, "
        "does something that cannot be batched; leave the batched checks out if it need not be."
    )


def _unit_vector(draw: numpy.random.Generator, array: Array) -> Array:
    """A random vector of length 1, for the elements of `array`; all its numbers are positive."""
    vector = draw.uniform(0, 1, array.size)
    if array.dtype.kind == "c":
        vector = vector + 1j * draw.uniform(0, 1, array.size)
    return vector / (numpy.linalg.norm(vector) or 1)


def _direction(draw: numpy.random.Generator, input: Tensor) -> Array:
    """A random direction to move an input in: a sparse one in its specified elements."""
    vector = _unit_vector(draw, input._array)
    if input._layout is not None:
        kept = numpy.zeros(len(vector), bool)
        kept[list(jacobians.movable(input)[1])] = True
        vector *= kept
    return vector


def _mismatch(part: Part, number: int, analytical: Array, numerical: Array, how: str) -> str:
    gap = numpy.nan_to_num(numpy.abs(analytical - numerical), nan=numpy.inf)
    row, column = numpy.unravel_index(gap.argmax(), gap.shape)
    return (
        f"gradcheck: {part} with respect to input {number}: {how} and finite differences "
        f"disagree, most at input element {row}, output element {column} "
        f"({analytical[row, column]} and {numerical[row, column]}).\nnumerical:\n{numerical}\n"
        f"analytical:\n{analytical}\nThe formula of the derivative is wrong, or the function is "
        "not smooth within eps of the input."
    )


class UndefinedGrad(OperatorNode):
    """Lets no gradient through: what lies behind it sees None."""

    __slots__ = ()

    def _run(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        """None, whatever arrives."""
        return (None,)

    _run_tensors = _run


def _without_gradient(output: Tensor) -> Tensor:
    node = UndefinedGrad()
    node._edges = (edge_of(output),)
    node._g_shape, node._g_dtype = output._array.shape, output._array.dtype
    node._cold, node._code, node._lasti, node._seq = None, None, 0, numbering.next()
    stopped = wrap(output._array)
    stopped._node = node
    return stopped
