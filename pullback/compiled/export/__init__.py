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
from pullback.compiled.export.arithmetic import Exported
from pullback.compiled.export.c import c_texts
from pullback.compiled.export.python import python_text
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import tree_flatten

__all__ = ["to_c", "to_python"]


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
    text = python_text(captured, function, leaves)
    Path(path).write_text(text, encoding="utf-8")


def to_c(function: Any, path: Any, *args: Any, **kwargs: Any) -> None:
    """Write the program of `function(*args)` as C, with a header beside it.

    Its function `program` takes pointers to row-major arrays: inputs, then outputs.
    """
    path = Path(path)
    source, header = c_texts(Exported(function, args, kwargs), path.with_suffix(".h").name)
    path.write_text(source)
    path.with_suffix(".h").write_text(header)
