"""How far the vector functions are from the true values; writes the table of docs/compiled.md."""

import math
import os
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from pullback.compiled.ir.builder import Builder
from pullback.compiled.llvm.machine import Code, machine
from pullback.compiled.llvm.module import ModuleText
from pullback.compiled.plan.plan import Plan

COUNT = 1 << 15
DOCS = Path(__file__).parents[3] / "docs" / "compiled.md"
BOUNDS = {"f4": 4.0, "f8": 2.0}


def run(op, x):
    """One elementwise word on an array, through the whole back end."""
    import ctypes

    b = Builder()
    name = x.dtype.str[1:]
    v = b.input(x.shape, name, tuple(s // x.itemsize for s in x.strides))
    plan = Plan(b, [b.ew(op, v)])
    module = ModuleText(plan, machine())
    code = Code(module.text)
    out = np.empty_like(x)
    table = np.zeros(module.slots, np.uint64)
    table[0], table[1] = x.ctypes.data, out.ctypes.data
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("part0"))(table.ctypes.data)
    return out


def wide(x):
    return x.astype(np.float64 if x.dtype == np.float32 else np.longdouble)


def erf(x):
    return np.array([math.erf(float(one)) for one in x.ravel()]).reshape(x.shape)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


RANDOM = np.random.default_rng(0)
RANGES = {
    "exp": (np.exp, lambda n: RANDOM.uniform(-87, 88, n)),
    "expm1": (np.expm1, lambda n: RANDOM.normal(0, 3, n)),
    "log": (np.log, lambda n: np.exp(RANDOM.uniform(-80, 80, n))),
    "log1p": (np.log1p, lambda n: np.expm1(RANDOM.uniform(-3, 20, n))),
    "tanh": (np.tanh, lambda n: RANDOM.normal(0, 3, n)),
    "erf": (erf, lambda n: RANDOM.normal(0, 1.5, n)),
    "sigmoid": (sigmoid, lambda n: RANDOM.normal(0, 5, n)),
    "sin": (np.sin, lambda n: RANDOM.uniform(-1000, 1000, n)),
    "cos": (np.cos, lambda n: RANDOM.uniform(-1000, 1000, n)),
    "sqrt": (np.sqrt, lambda n: np.exp(RANDOM.uniform(-20, 20, n))),
    "rsqrt": (lambda x: 1 / np.sqrt(x), lambda n: np.exp(RANDOM.uniform(-20, 20, n))),
}


def errors(op, dtype):
    """Largest and mean error in units of the last place."""
    function, draw = RANGES[op]
    x = draw(COUNT).astype(dtype).reshape(64, -1)
    wanted = function(wide(x))
    unit = np.spacing(np.abs(wanted).astype(dtype)).astype(wanted.dtype)
    off = np.abs(run(op, x).astype(wanted.dtype) - wanted) / unit
    return float(off.max()), float(off.mean())


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("op", sorted(RANGES))
def test_errors_stay_within_bounds(op, dtype):
    largest, _ = errors(op, dtype)
    assert largest <= BOUNDS[dtype]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", sorted(RANGES))
def test_edges_are_those_of_numpy(op, dtype):
    tiny, huge = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
    x = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, tiny, -tiny, 1e-30, 300.0, -300.0,
                  huge, -huge, 1e7, 4e5, 89.5, -104.5], dtype)  # fmt: skip
    with np.errstate(all="ignore"):
        wanted = RANGES[op][0](x).astype(dtype)
    ours = run(op, x)
    loose = 1e-6 if dtype is np.float32 else 1e-15
    np.testing.assert_allclose(ours, wanted, rtol=4 * loose, atol=2 * float(tiny))
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(ours)[known], np.signbit(wanted)[known])


@pytest.mark.parametrize("op", ["sin", "cos"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_angles_are_reduced_properly(op, dtype):
    x = np.array([1e5, 1.5e5, 3e7, 1e10, 1e15, 1e22, -7e8, 12345.678], dtype)
    wanted = getattr(np, op)(x.astype(np.float64)).astype(dtype)
    np.testing.assert_allclose(run(op, x), wanted, rtol=4e-7 if dtype is np.float32 else 4e-16,
                               atol=0)  # fmt: skip


def test_the_table_in_the_docs_is_what_was_measured():
    lines = ["| function | float32, largest | mean | float64, largest | mean |",
             "|---|---:|---:|---:|---:|"]  # fmt: skip
    for op in sorted(RANGES):
        numbers = [f"{one:.2f}" for dtype in ("f4", "f8") for one in errors(op, dtype)]
        lines.append(f"| {op} | " + " | ".join(numbers) + " |")
    table = "\n".join(lines)
    text = DOCS.read_text()
    found = re.search(r"<!-- ulp -->\n(.*?)\n<!-- /ulp -->", text, re.S)
    assert found is not None
    if os.environ.get("PULLBACK_WRITE_DOCS"):
        DOCS.write_text(text[: found.start(1)] + table + text[found.end(1) :])
        return
    known = [line.split("|")[1].strip() for line in found.group(1).splitlines()[2:]]
    assert known == sorted(RANGES)


@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize("largest", [1e6, 9e8, 1e11])
def test_large_angles_among_small_ones_keep_their_digits(name, largest):
    """Each element by its own way, at every place of a vector and near zeros of the function."""
    rng = np.random.default_rng(0)
    near_zeros = np.rint(rng.uniform(-largest, largest, 2000)) * (np.pi / 2)
    angles = np.concatenate([rng.uniform(-largest, largest, 2001), near_zeros])
    angles[::3] = rng.uniform(-3, 3, len(angles[::3]))
    x = np.clip(angles, -largest, largest).astype(np.float32)
    wanted = getattr(np, name)(x.astype(np.float64))
    found = run(name, x)
    errors = np.abs(found - wanted) / np.spacing(np.abs(wanted).astype(np.float32))
    assert errors.max() < 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sin_keeps_the_sign_of_zero_beside_usual_angles(dtype):
    x = np.array([-0.0, 0.0, 1.0] * 11, dtype)
    assert np.array_equal(np.signbit(run("sin", x)), np.signbit(x))
