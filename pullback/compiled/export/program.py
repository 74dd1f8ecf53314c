"""A captured program as a function of arrays: a line for each call, then writes and results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy

from pullback.compiled.capture.branches import Chosen, CompiledPass, Pulled
from pullback.compiled.capture.capture import Captured, Output, capture
from pullback.compiled.capture.nodes import Rules
from pullback.compiled.capture.steps import Call, Value, live
from pullback.compiled.export.definitions import Definitions
from pullback.compiled.export.plain import apart, given, turns
from pullback.compiled.export.values import CannotWrite
from pullback.core.dtype import NARROW
from pullback.core.tensor import Tensor, wrap
from pullback.operators.running.on_arrays import array_call

__all__ = ["Program"]

_WIDTH = 90  # of lines within the program
_ORDER = ("argument", "held", "grad", "constant")


class Program:
    """One function of an exported module."""

    def __init__(self, captured: Captured, definitions: Definitions, leaves: list[Any]) -> None:
        """`leaves`: of the arguments that it was captured with."""
        if captured.stores:
            raise RuntimeError(
                "An export cannot store gradients in tensors: return them from the function, by "
                "func.grad or autograd.grad."
            )
        self.captured, self.definitions, self.leaves = captured, definitions, leaves
        self.calls = live(captured.calls[: captured.forward], self._wanted())
        # Of each step that decides or loops, the programs of the functions that it runs.
        self.inner = {id(call): self._inner(call) for call in self.calls
                      if isinstance(call.kernel, Chosen | Pulled | CompiledPass)}  # fmt: skip
        self.names: dict[int, str] = {}
        self.parameters = self._named_inputs()

    def _wanted(self) -> list[Value]:
        """The values that results, and writes to arguments, are made of."""
        wanted = [one.value for one in self.captured.outputs if one.kind == "value"]
        for one in self.captured.outputs:
            if one.kind == "view":
                wanted += [call.results[place] for call, place in one.steps[-1:]]
        return wanted + [value for _, value in self.captured.writes]

    def _named_inputs(self) -> list[tuple[str, Value]]:
        """Names of the inputs: all arguments, and of other tensors those that the program reads."""
        captured = self.captured
        read = {one.number for call in self.calls for one in call.inputs}
        read |= {one.number for one in self._wanted()}
        read |= {captured.inputs[one.place].value.number for one in captured.outputs
                 if one.kind in ("input", "view")}  # fmt: skip
        read |= {captured.inputs[place].value.number for place, _ in captured.writes}
        read |= {self._number_of(one) for programs in self.inner.values() for program in programs
                 for one in program.found()}  # fmt: skip
        made, counts = [], dict.fromkeys(_ORDER, 0)
        for one in sorted(captured.inputs, key=lambda one: _ORDER.index(one.kind)):
            name = f"{one.kind}_{counts[one.kind]}"
            counts[one.kind] += 1
            if one.value.number in read or one.kind == "argument":
                self.names[one.value.number] = f"v{one.value.number}"
                if one.kind == "constant":
                    self.names[one.value.number] = self.definitions.of(one.place, name)
                else:
                    made.append((name, one.value))
        return made

    def found(self) -> list[Tensor]:
        """The tensors that the function found, in the order of the parameters that they are."""
        held = {one.value.number: one.place for one in self.captured.inputs if one.kind == "held"}
        return [held[one.number] for _, one in self.parameters if one.number in held]

    def _number_of(self, tensor: Tensor) -> int:
        """The value that a tensor from outside is."""
        for one in self.captured.inputs:
            place = self.leaves[one.place] if one.kind == "argument" else one.place
            if place is tensor:
                return one.value.number
        raise CannotWrite("a tensor that a branch finds, and the function around it does not")

    def lines(self) -> list[str]:
        """The body of the function."""
        made = [self._taken(name, one) for name, one in self.parameters]
        made += [line for call in self.calls for line in self._lines(call)]
        made += self._ends()
        self.definitions.finish()
        return made

    def parameter(self, place: int) -> str:
        """The name of an input as the caller knows it."""
        number = self.captured.inputs[place].value.number
        return next(name for name, one in self.parameters if one.number == number)

    # Lines ----------------------------------------------------------------------------------

    def _taken(self, name: str, one: Value) -> str:
        strides = tuple(stride // one.dtype.itemsize for stride in one.strides)
        parts = (name, self.definitions.of(one.dtype, "dtype"), str(one.shape), str(strides))
        return (
            f"v{one.number} = {self.definitions.of(given, 'given')}({name!r}, {', '.join(parts)})"
        )

    def _lines(self, call: Call) -> list[str]:
        where = f" at {call.origin}" if call.origin is not None else ""
        if call.random:
            raise RuntimeError(
                f"{call.name}{where} draws random numbers, which an export cannot: it would need "
                "the generator's state. Draw them before, and pass them as an argument."
            )
        if any(one.dtype in NARROW for one in call.results):
            raise RuntimeError(
                f"{call.name}{where} gives numbers of a dtype that NumPy does not compute with; "
                "convert to float32 or complex64 before."
            )
        try:
            made = self._stepped(call) if id(call) in self.inner else self._called(call)
            self.definitions.finish()
        except CannotWrite as reason:
            raise RuntimeError(
                f"{call.name}{where} cannot be written as a module on NumPy alone: it needs "
                f"{reason}. Export the parts before and after it."
            ) from None
        for one in call.results:
            self.names[one.number] = f"v{one.number}"
        names = ", ".join(self.names[one.number] for one in call.results)
        line = f"[{names}] = map(numpy.asarray, {made})"
        if call.single and id(call) not in self.inner:
            line = f"{names} = numpy.asarray({made})"
        comment = f"# {call.name}{where}"
        return [f"{line}  {comment}"] if len(line + comment) <= _WIDTH else [comment, line]

    def _called(self, call: Call) -> str:
        kernel, args = call.kernel, [self._argument(one) for one in call.args]
        kernel = kernel.run if isinstance(kernel, Rules) else kernel
        named = {name: self._argument(one) for name, one in call.kwargs.items()}
        op = call.op
        if op is not None and kernel is op.forward and all(param.is_tensor for param in op.params):
            direct = array_call(op)
            if direct is not None:
                return f"numpy.{direct}({', '.join(named.values())})"
        parts = [*args, *[f"{name}={one}" for name, one in named.items()]]
        return f"{self.definitions.of(kernel, call.name)}({', '.join(parts)})"

    def _argument(self, one: Any) -> str:
        kind = one.__class__
        if kind is Value:
            return self.names[one.number]
        if kind is tuple or kind is list:
            inner = ", ".join(self._argument(x) for x in one)
            if kind is list:
                return f"[{inner}]"
            return f"({inner},)" if len(one) == 1 else f"({inner})"
        if kind is dict:
            pairs = [f"{self._argument(k)}: {self._argument(v)}" for k, v in one.items()]
            return f"{{{', '.join(pairs)}}}"
        return self.definitions.of(one, "constant")

    def _ends(self) -> Iterable[str]:
        """What is done with the values: writes to arguments, and results."""
        captured = self.captured
        made = [one.value for one in captured.outputs if one.kind == "value"]
        made += [value for _, value in captured.writes]
        if made:
            names = ", ".join(f"result_{number}" for number in range(len(made)))
            values = ", ".join(self.names[one.number] for one in made)
            others = ", ".join(self.names[one.value.number] for one in captured.inputs
                               if one.value.number in self.names)  # fmt: skip
            helper = self.definitions.of(apart, "apart")
            yield f"[{names}] = {helper}([{values}], [{others}])"
        count = len(made) - len(captured.writes)
        for number, (place, _) in enumerate(captured.writes, count):
            yield f"{self.parameter(place)}[...] = result_{number}"
        numbers = iter(range(count))
        results = [self._result(one, numbers) for one in captured.outputs]
        yield f"return [{', '.join(results)}]"

    def _result(self, one: Output, numbers: Iterator[int]) -> str:
        if one.kind == "value":
            return f"result_{next(numbers)}"
        if one.kind == "object":
            try:
                return self.definitions.of(one.place, "result")
            except CannotWrite as reason:
                raise RuntimeError(f"A result cannot be written: it is {reason}.") from None
        if one.steps:
            call, place = one.steps[-1]
            return self.names[call.results[place].number]
        return self.parameter(one.place)

    # Steps that decide or loop --------------------------------------------------------------

    def _inner(self, call: Call) -> list[Program]:
        """The programs of the functions that a step runs, on arrays like its arguments."""
        kernel: Any = call.kernel
        like = (
            call.args if isinstance(kernel, CompiledPass) else call.args[1:]
        )  # without what decides
        made = []
        for function in kernel.functions():
            tensors = [wrap(numpy.zeros(one.shape, one.dtype)) for one in like]
            for tensor, needs in zip(tensors, kernel.needs_grad, strict=False):
                tensor.requires_grad_(needs)
            captured = kernel.in_mode(
                lambda f=function, t=tensors: capture(f, (*t,), {}, exact=True)
            )
            made.append(Program(captured, self.definitions, tensors))
        return made

    def _stepped(self, call: Call) -> str:
        """A call of a step that decides or loops."""
        names = [self._written(call.name, one) for one in self.inner[id(call)]]
        values = [self._argument(one) for one in call.args]
        held = [[self.names[self._number_of(one)] for one in program.found()]
                for program in self.inner[id(call)]]  # fmt: skip
        if isinstance(call.kernel, CompiledPass):
            carried = values[: len(values) - call.kernel.more]
            listed = [f"[{', '.join([*values[len(carried) :], *one])}]" for one in held]
            helper = self.definitions.of(turns, "turns")
            return f"{helper}({', '.join([*names, *listed, *carried])})"
        taken, other = [f"{name}({', '.join([*values[1:], *more])})"
                        for name, more in zip(names, held, strict=True)]  # fmt: skip
        return f"({taken} if {values[0]}.item() else {other})"

    def _written(self, step: str, program: Program) -> str:
        given = ", ".join(name for name, _ in program.parameters)
        lines = "".join(f"\n    {line}" for line in program.lines())
        return self.definitions.function(step, lambda name: f"def {name}({given}):{lines}")
