"""What a call's results will be like, as far as it is told without running the operator."""

import numpy
import pytest

import pullback.nn.functional  # noqa: F401 (brings operators)
from pullback.compiled.capture import shapes
from pullback.core.memory import meta
from pullback.operators.declare import OPERATORS
from pullback.operators.running import meta as operators_meta

FORMULAS = [name for name, op in OPERATORS.items() if op.formula is not None]
OPTIONS = {
    "alpha": 0.5, "approximate": "none", "beta": 2.0, "delta": 1.5, "eps": 0.1, "input_scale": 1.5,
    "lambd": 0.5, "max_val": 1.0, "min_val": -1.0, "negative_slope": 0.1, "scale": 1.5,
    "threshold": 0.25, "value": 3.0,
}  # fmt: skip


def told_and_asked(name, dtype):
    op = OPERATORS[name]
    options = {option: OPTIONS[option] for option in op.formula.options}
    arrays = {one: meta.of((3, 1), numpy.dtype(dtype)) for one in op.formula.formula.tensors}
    with numpy.errstate(all="ignore"):
        asked = operators_meta.compute(op, arrays, options).dtype
    return shapes._told(op, arrays, options), asked


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_formulas_have_the_dtype_that_running_them_gives(name, dtype):
    told, asked = told_and_asked(name, dtype)
    assert told == asked == dtype


def test_there_are_formulas_and_other_dtypes_are_asked_for():
    assert {"nn.functional.gelu", "_gelu_backward"} <= {*FORMULAS}
    op = OPERATORS["sigmoid"]
    for mixed in ("i8", "c8"):
        assert shapes._told(op, {"input": meta.of((3,), numpy.dtype(mixed))}, {}) is None
    single, double = (meta.of((3,), numpy.dtype(dtype)) for dtype in ("f4", "f8"))
    op = OPERATORS["logaddexp"]
    assert shapes._told(op, {"input": single, "other": double}, {}) is None


def test_options_that_a_formula_refuses_are_refused():
    op = OPERATORS["nn.functional.gelu"]
    with pytest.raises(RuntimeError, match="approximate"):
        shapes._told(op, {"input": meta.of((3,), numpy.dtype("f4"))}, {"approximate": "roughly"})
