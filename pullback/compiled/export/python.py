"""A captured program as a module: its kernels' sources, and a function that calls them in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from types import FunctionType
from typing import Any

from pullback.compiled.capture.capture import Captured, Output
from pullback.compiled.capture.steps import Call, Value, live
from pullback.compiled.export.definitions import Definitions
from pullback.compiled.export.plain import apart, given
from pullback.compiled.export.values import CannotWrite
from pullback.core.tensor import Tensor
from pullback.operators.writing.specialise import array_call

__all__ = ["python_text"]

_WIDTH = 90  # of lines within the program
_NOTE = (
    "Written from a captured program, with the parts of pullback that it calls; needs NumPy alone.",
    "Sizes and dtypes are those that it was captured with.",
)
_ORDER = ("argument", "held", "grad", "constant")


def python_text(captured: Captured, function: Any) -> str:
    """The module's text, for a program that was captured from a function."""
    return _Module(captured, function).text()


class _Module:
    def __init__(self, captured: Captured, function: Any) -> None:
        if captured.stores:
            raise RuntimeError(
                "An export cannot store gradients in tensors: return them from the function, by "
                "func.grad or autograd.grad."
            )
        self.captured, self.function = captured, function
        self.definitions = Definitions()
        self.definitions.imports.add("numpy")
        self.calls = live(captured.calls[: captured.forward], self._wanted())
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

    def text(self) -> str:
        """The module: what it is, imports, the program, and below it what the program calls."""
        body = [self._taken(name, one) for name, one in self.parameters]
        body += [line for call in self.calls for line in self._lines(call)]
        body += self._ends()
        self.definitions.finish()
        given = ", ".join(name for name, _ in self.parameters)
        title = getattr(self.function, "__name__", type(self.function).__name__)
        lines = [
            f'"""The program of {title}.',
            "",
            f"`program({given})` takes arrays of NumPy:",
            "",
        ]
        lines += self._inputs()
        lines += ["", "It returns a list:", "", *self._results(), ""]
        lines += [*_NOTE, '"""', ""]
        imports, definitions = self.definitions.texts()
        lines += [*imports, "", "", f"def program({given}):",
                  '    """The results, in order; the arguments are arrays."""',
                  '    with numpy.errstate(all="ignore"):']  # fmt: skip
        lines += [f"        {line}" for line in body]
        return "\n".join([*lines, *definitions, ""])

    def _inputs(self) -> list[str]:
        """What the arguments are; of tensors that the function found, what it calls them."""
        function, places = self.function, self.captured.world.places
        called = {id(one): name for _, name, one in places if isinstance(one, Tensor)}
        if isinstance(function, FunctionType):
            cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
            called |= {id(cell.cell_contents): name for name, cell in cells}
        for listed in ("named_buffers", "named_parameters"):
            if hasattr(function, listed):
                called |= {id(one): name for name, one in getattr(function, listed)()}
        found = {one.value.number: id(one.place) for one in self.captured.inputs
                 if one.kind == "held"}  # fmt: skip
        lines = []
        for name, one in self.parameters:
            known = called.get(found.get(one.number, 0))
            lines.append(f"    {name}: {_said(one)}" + (f", `{known}`" if known else ""))
        return lines

    def _results(self) -> list[str]:
        said = []
        for one in self.captured.outputs:
            if one.kind == "value":
                said.append(_said(one.value))
            elif one.kind == "object":
                said.append(repr(one.place))
            else:
                name = self._parameter(one.place)
                said.append(f"{name} itself" if one.kind == "input" else f"a view of {name}")
        return [f"    {number}: {one}" for number, one in enumerate(said)]

    def _parameter(self, place: int) -> str:
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
        try:
            made = self._called(call)
            self.definitions.finish()
        except CannotWrite as reason:
            raise RuntimeError(
                f"{call.name}{where} cannot be written as a module on NumPy alone: it needs "
                f"{reason}. Export the parts before and after it."
            ) from None
        for one in call.results:
            self.names[one.number] = f"v{one.number}"
        names = ", ".join(self.names[one.number] for one in call.results)
        line = (
            f"{names} = numpy.asarray({made})" if call.single
            else f"[{names}] = map(numpy.asarray, {made})"
        )  # fmt: skip
        comment = f"# {call.name}{where}"
        return [f"{line}  {comment}"] if len(line + comment) <= _WIDTH else [comment, line]

    def _called(self, call: Call) -> str:
        kernel, args = call.kernel, [self._argument(one) for one in call.args]
        named = {name: self._argument(one) for name, one in call.kwargs.items()}
        op = call.op
        if op is not None and kernel is op.forward and all(param.is_tensor for param in op.params):
            direct = array_call(op)
            if direct is not None:
                return f"numpy.{direct}({', '.join(named.values())})"
        while isinstance(kernel, partial):
            args = [*[self._argument(one) for one in kernel.args], *args]
            named = {**{n: self._argument(one) for n, one in kernel.keywords.items()}, **named}
            kernel = kernel.func
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
            yield f"{self._parameter(place)}[...] = result_{number}"
        numbers = iter(range(count))
        results = [self._result(one, numbers) for one in captured.outputs]
        yield f"return [{', '.join(results)}]"

    def _result(self, one: Output, numbers: Iterator[int]) -> str:
        if one.kind == "value":
            return f"result_{next(numbers)}"
        if one.kind == "object":
            return self.definitions.of(one.place, "result")
        if one.steps:
            call, place = one.steps[-1]
            return self.names[call.results[place].number]
        return self._parameter(one.place)


def _said(one: Value) -> str:
    return f"{one.dtype.name}{list(one.shape)}"
