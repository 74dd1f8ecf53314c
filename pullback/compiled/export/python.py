"""A captured program as a module: what it is, the program, and the sources of its kernels."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from pullback.compiled.capture.capture import Captured
from pullback.compiled.capture.steps import Value
from pullback.compiled.export.definitions import Definitions
from pullback.compiled.export.program import Program

__all__ = ["python_text"]

_NOTE = (
    "Written from a captured program, with the parts of pullback that it calls; needs NumPy alone.",
    "Sizes and dtypes are those that it was captured with.",
)


def python_text(captured: Captured, function: Any, leaves: list[Any]) -> str:
    """The module's text, for a program that was captured from a function of these arguments."""
    return _Module(captured, function, leaves).text()


class _Module:
    def __init__(self, captured: Captured, function: Any, leaves: list[Any]) -> None:
        self.function = function
        self.definitions = Definitions()
        self.definitions.imported("numpy")
        self.program = Program(captured, self.definitions, leaves)

    def text(self) -> str:
        """The module: what it is, imports, the program, and below it what the program calls."""
        body = self.program.lines()
        given = ", ".join(name for name, _ in self.program.parameters)
        title = getattr(self.function, "__name__", type(self.function).__name__)
        lines = [f'"""The program of {title}.', "", f"`program({given})` takes arrays of NumPy:"]
        lines += ["", *self._inputs(), "", "It returns a list:", "", *self._results(), ""]
        lines += [*_NOTE, '"""', ""]
        imports, definitions = self.definitions.texts()
        lines += [*imports, "", "", f"def program({given}):",
                  '    """The results, in order; the arguments are arrays."""',
                  '    with numpy.errstate(all="ignore"):']  # fmt: skip
        lines += [f"        {line}" for line in body]
        return "\n".join([*lines, *definitions, ""])

    def _inputs(self) -> list[str]:
        """What the arguments are; of tensors that the function found, what it calls them."""
        function = self.function
        called = self.program.captured.world.names()
        if isinstance(function, FunctionType):
            cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
            called |= {id(cell.cell_contents): name for name, cell in cells}
        for listed in ("named_buffers", "named_parameters"):
            if hasattr(function, listed):
                called |= {id(one): name for name, one in getattr(function, listed)()}
        found = {one.value.number: id(one.place) for one in self.program.captured.inputs
                 if one.kind == "held"}  # fmt: skip
        lines = []
        for name, one in self.program.parameters:
            known = str(called.get(found.get(one.number, 0), ""))
            is_name = known.replace(".", "_").isidentifier() or known[:1].isdecimal()
            lines.append(f"    {name}: {_said(one)}" + (f", `{known}`" if is_name else ""))
        return lines

    def _results(self) -> list[str]:
        said = []
        for one in self.program.captured.outputs:
            if one.kind == "value":
                said.append(_said(one.value))
            elif one.kind == "object":
                said.append(type(one.place).__name__)
            else:
                name = self.program.parameter(one.place)
                said.append(f"{name} itself" if one.kind == "input" else f"a view of {name}")
        return [f"    {number}: {one}" for number, one in enumerate(said)]


def _said(one: Value) -> str:
    return f"{one.dtype.name}{list(one.shape)}"
