"""The node of a user's operator: that of a custom Function, with arguments that may be lists.

The formula is looked up when backward runs, through the Function class that belongs to the
operator, so that a formula registered later counts for graphs recorded earlier.
"""

from __future__ import annotations

from typing import Any, ClassVar

from numpy import ndarray

from pullback.autograd.function import Function, FunctionMeta
from pullback.autograd.function.node import BackwardCFunction, next_function_id, of_tensors
from pullback.core.mode import NO_GRAD, current, get_mode
from pullback.core.tensor import Tensor, new
from pullback.core.version import UNWRITTEN
from pullback.library.registry import Operator


class OperatorCallNode(BackwardCFunction):
    """One recorded call of a user's operator; also the `ctx` of its formula."""

    __slots__ = ("_least", "_out_lengths")

    _operator: ClassVar[Operator]
    # The same as `_forward_cls.backward`, one step nearer.
    _formula: ClassVar[Any]
    # How many gradients must come at least: trailing arguments left at their default need none.
    _least: int
    # For each positional argument the length of its list of tensors, None where it is no list;
    # None altogether where no argument is one.
    _lengths: tuple[int | None, ...] | None = None
    # For each return the length of its list of tensors; read for list returns only.
    _out_lengths: tuple[int, ...]

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What setup_context gave to save_for_backward."""
        saved = self._saved
        if saved.__class__ is tuple:
            for tensor, version in zip(saved, self._versions):  # noqa: B905 (0.1 us; equal lengths)
                if tensor._cell[0] != version:
                    break
            else:
                return saved
        return super().saved_tensors

    def _run(self, g: Any, edges: tuple[Any, ...]) -> Any:
        """The formula on one gradient, in the usual mode; the rest is as for any Function."""
        if self._g_sizes is not None or type(g) is not ndarray or get_mode() is not NO_GRAD:
            return super()._run(g, edges)
        tensor = new(Tensor)
        tensor._array = g
        tensor._node = None
        tensor._cell = UNWRITTEN
        returned = self._formula(self, tensor)
        if get_mode() is not NO_GRAD:
            current.set(NO_GRAD)  # whatever the formula did to grad mode ends here
        if self._is_tensor is None:
            if returned.__class__ is Tensor and len(edges) == 1:
                return (returned._array,)
            if returned.__class__ is tuple and len(returned) == len(edges):
                results = []
                for value in returned:
                    if value.__class__ is Tensor:
                        results.append(value._array)
                    elif value is None:
                        results.append(None)
                    else:
                        break
                else:
                    return results
        return [None if value is None else value._array for value in self._per_edge(returned)]

    def _per_edge(self, returned: Any) -> Any:
        """The gradients for the tensor arguments, from what the formula returned for all."""
        values = returned if isinstance(returned, tuple) else (returned,)
        name = type(self).name(self)
        expected = len(self._operator.schema.positional)
        if len(values) > expected and all(value is None for value in values[expected:]):
            values = values[:expected]
        if len(values) > expected or len(values) < self._least:
            raise _wrong_count(name, self._operator, expected, values)
        if len(values) < expected:
            missing = range(len(values), expected)
            lengths = self._lengths
            values = (
                *values,
                *([None] * (lengths[i] or 0) if lengths and lengths[i] is not None else None
                  for i in missing),
            )  # fmt: skip
        flat_values, positions = self._flat(values, name)
        kinds = (True,) * len(self._edges) if self._is_tensor is None else self._is_tensor
        return of_tensors(name, flat_values, kinds, positions)

    def _flat(self, values: tuple[Any, ...], name: str) -> tuple[list[Any], list[int]]:
        """The gradients with those of lists one by one, and the argument that each is for."""
        if self._lengths is None:
            return list(values), list(range(1, len(values) + 1))
        found: list[Any] = []
        positions: list[int] = []
        arguments = self._operator.schema.positional
        for number, (value, length) in enumerate(zip(values, self._lengths, strict=True)):
            if length is None:
                found.append(value)
                positions.append(number + 1)
                continue
            if not isinstance(value, list) or len(value) != length:
                raise _wrong_list(name, number, arguments[number].name, length, value)
            found += value
            positions += [number + 1] * length
        return found, positions


def _wrong_count(
    name: str, operator: Operator, expected: int, values: tuple[Any, ...]
) -> RuntimeError:
    names = ", ".join(argument.name for argument in operator.schema.positional)
    return RuntimeError(
        f"{name}: the backward formula of {operator.qualname} must return {expected} gradients, "
        f"one for each of its arguments ({names}), but returned {len(values)}. Return None for "
        "arguments that have none."
    )


def _structure(value: Any) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return "None" if value is None else f"a {type(value).__name__}"


def _wrong_list(name: str, number: int, argument: str, length: int, value: Any) -> RuntimeError:
    return RuntimeError(
        f"{name}: argument {number} ({argument!r}) is a list of {length} tensors, so its gradient "
        f"must be a list of {length} (each a tensor or None), but the backward formula returned "
        f"{_structure(value)}."
    )


def node_class(operator: Operator) -> Any:
    """The class of the operator's nodes; its `_forward_cls` is the Function it acts for."""
    known = operator.node_class
    if known is not None:
        return known
    schema = operator.schema
    title = "_".join([*schema.name.split("::"), schema.overload_name or "default"])
    function = function_for(operator, f"GeneratedBackwardFor_{title}", __name__)
    _give_backward(function._backward_cls, operator)
    operator.node_class = function._backward_cls  # last: an error before leaves it to the next call
    return operator.node_class


def function_for(operator: Operator, name: str, module: str) -> Any:
    """A Function that stands for an operator in the graph; its nodes are of its `_backward_cls`."""
    function: Any = FunctionMeta(name, (Function,), {"__module__": module})
    about = {
        "_forward_cls": function,
        "_autograd_function_id": next_function_id(),
        "_operator": operator,
        "__module__": module,
        "__qualname__": f"{name}Backward",
    }
    function._backward_cls = type(f"{name}Backward", (OperatorCallNode,), about)
    return function


def set_backward(operator: Operator) -> None:
    """Let the nodes of an operator, those that exist too, run the formula it has now."""
    if operator.node_class is not None:
        _give_backward(operator.node_class, operator)


def _give_backward(node_class: Any, operator: Operator) -> None:
    node_class._forward_cls.backward = node_class._formula = staticmethod(_backward_of(operator))


def _backward_of(operator: Operator) -> Any:
    formula = operator.formula
    if formula is None:
        return lambda ctx, *grads: _refuse(operator)
    returns = operator.schema.returns
    backward = formula.backward
    if not any(one.type.is_tensor_list for one in returns):
        return backward

    def grouped(ctx: Any, *grads: Any) -> Any:
        """One list for each result that is a list."""
        left = iter(grads)
        given = []
        for one, length in zip(returns, ctx._out_lengths, strict=True):
            listed = one.type.is_tensor_list
            given.append([next(left) for _ in range(length)] if listed else next(left))
        return backward(ctx, *given)

    return grouped


def _refuse(operator: Operator) -> Any:
    raise no_formula(operator.qualname)


def no_formula(qualname: str) -> RuntimeError:
    """Backward reached an operator that cannot be differentiated yet."""
    return RuntimeError(
        f"{qualname} has no backward formula, and a gradient arrived at it. Register one with "
        f"pullback.library.register_autograd({qualname!r}, backward, setup_context=...)."
    )
