"""Programs for others: a Python module on NumPy alone, or C without any dependency.

    to_python(func.grad(loss), "gradient.py", x)
    to_c(func.grad(loss), "gradient.c", x)

The exported function takes the arrays of the call's tensors, in order, then those that the function
found elsewhere (parameters), and gives its results. As Python every program can be written, with
the sources of the kernels that it calls; as C what is lowered to the array language. What cannot be
is named in the error, with the user's line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy

from pullback.compiled.capture.capture import capture
from pullback.compiled.capture.steps import live
from pullback.compiled.export.c import c_texts
from pullback.compiled.export.python import python_text
from pullback.compiled.ir.values import live_values
from pullback.compiled.lower.program import Lowered
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import tree_flatten

__all__ = ["to_c", "to_python"]

_SMALL = 256  # elements of a constant that is written into the program


class Exported:
    """What an export writes: live values in order, inputs with their names, outputs, constants."""

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        captured = capture(function, args, kwargs)
        if captured.writes or captured.stores:
            raise RuntimeError("An export computes results; it cannot write to tensors.")
        wanted = [one.value for one in captured.outputs if one.kind == "value"]
        if len(wanted) != len(captured.outputs):
            raise RuntimeError("An export gives new tensors: no arguments, views or other objects.")
        calls = live(captured.calls[: captured.forward], wanted)
        order = sorted(captured.inputs, key=lambda one: ("argument", "held", "constant")
                       .index(one.kind) if one.kind != "grad" else 9)  # fmt: skip
        fixed = {one.value.number: one.place for one in order if one.kind == "constant"}
        lowered = Lowered(calls, [one.value for one in order], wanted, fixed)
        if lowered.b.calls:
            names = sorted({one.name for one in lowered.b.calls})
            raise RuntimeError(
                f"{', '.join(names)}: no lowering to plain arithmetic, so the program cannot be "
                "exported. Write the function without it, or export the part around it."
            )
        self.outputs = lowered.outputs
        self.values = live_values(lowered.b.values, lowered.outputs)
        self.strip = lowered.b.strip
        used = {v.id for v in self.values}
        self.inputs: list[tuple[str, Any]] = []  # name, value
        self.constants: list[tuple[str, Any, Any]] = []  # name, value, array
        counts = {"argument": 0, "held": 0, "constant": 0}
        for one, v in zip(order, lowered.b.inputs, strict=True):
            name = f"{one.kind}_{counts[one.kind]}"
            counts[one.kind] += 1
            if one.kind == "constant" and v.id in used:
                if one.place.size > _SMALL:
                    raise RuntimeError(
                        f"The function makes an array of {one.place.size} elements itself; pass it "
                        "as an argument, so that the program need not contain it."
                    )
                self.constants.append((name, v, numpy.array(one.place)))
            elif one.kind == "argument" or v.id in used:
                self.inputs.append((name, v))


def to_python(function: Any, path: Any, *args: Any, **kwargs: Any) -> None:
    """Write the program of `function(*args)` as a Python module on NumPy alone.

    Its function `program` takes arrays and returns a list of arrays, with eager's bits.
    """
    # An expanded argument stands for any array of its sizes.
    leaves = tree_flatten((args, kwargs))[0]
    dense = {
        number: (leaf._array.shape, numpy.empty(leaf._array.shape, leaf._array.dtype).strides)
        for number, leaf in enumerate(leaves)
        if isinstance(leaf, Tensor) and 0 in leaf._array.strides
    }
    captured = capture(function, args, kwargs, dense, exact=True)
    text = python_text(captured, function)
    Path(path).write_text(text, encoding="utf-8")


def to_c(function: Any, path: Any, *args: Any, **kwargs: Any) -> None:
    """Write the program of `function(*args)` as C, with a header beside it.

    Its function `program` takes pointers to row-major arrays: inputs, then outputs.
    """
    path = Path(path)
    source, header = c_texts(Exported(function, args, kwargs), path.with_suffix(".h").name)
    path.write_text(source)
    path.with_suffix(".h").write_text(header)
