"""Laws of every formula: all that follows from it agrees with the plain meaning.

At sizes around the thresholds at which another form takes over, on special values, in each dtype.
"""

import ctypes
import itertools
import math
import shutil
import subprocess

import numpy
import pytest

import pullback as torch
from pullback.compiled.eager.kernel import native_kernel
from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.evaluate import elementwise
from pullback.compiled.llvm.machine import is_available
from pullback.compiled.lower.from_formulas import value
from pullback.compiled.lower.rules import NotLowered
from pullback.core.arrays import F32, F64
from pullback.operators.declare import OPERATORS
from pullback.operators.formula import derive
from pullback.operators.formula.in_c import one_expression
from pullback.operators.formula.kernels import AT_ONCE, FEW
from pullback.operators.formula.steps import Steps

# Loads the families whose formulas are tried.
_ = torch.nn.functional.gelu, torch.nn.functional.huber_loss, torch.special.erf  # loads families
TINY = {F32: 1e-42, F64: 5e-320}
HUGE = {F32: 3e38, F64: 1.7e308}
# Options that a formula is tried with: the first are torch's defaults.
OPTIONS = {
    "nn.functional.gelu": [("none",), ("tanh",)],
    "nn.functional.softplus": [(1.0, 20.0), (2.0, 3.0), (0.5, 20.0)],
    "nn.functional.elu": [(1.0, 1.0, 1.0), (1.6732632423543772, 1.0507009873554805, 1.0),
                          (0.5, 2.0, 0.25)],
    "nn.functional.celu": [(1.0,), (0.5,)],
    "nn.functional.hardtanh": [(-1.0, 1.0), (0.0, 6.0)],
    "nn.functional.threshold": [(0.0, 0.0), (0.5, -3.0)],
    "nn.functional.leaky_relu": [(0.01,), (1.5,), (-0.25,), (0.0,)],
    "hardshrink": [(0.5,), (0.3,)],
    "nn.functional.softshrink": [(0.5,), (0.3,)],
    "logit": [(None,), (0.1,)],
    "_huber": [(1.0,), (0.25,)],
    "_smooth_l1": [(1.0,), (0.25,)],
}  # fmt: skip


def forwards():
    """Operators that are declared by a formula, without those of the derived adjoints."""
    return {
        key: op
        for key, op in OPERATORS.items()
        if op.formula is not None and not key.endswith("_backward") and "_backward_" not in key
    }


def cases():
    for key, op in sorted(forwards().items()):
        for options in OPTIONS.get(key, [()]):
            yield pytest.param(op, options, id=f"{key}{options or ''}")


def adjoints():
    """Each derived adjoint, with the options that it takes of those of its forward."""
    for key, op in sorted(OPERATORS.items()):
        if op.formula is None or op.formula.formula.name in {
            one.formula.formula.name for one in forwards().values()
        }:
            continue
        short = key[1:].partition("_backward")[0]
        of = next(k for k in forwards() if k.rpartition(".")[2].removeprefix("_") == short)
        named = forwards()[of].formula.options
        for options in OPTIONS.get(of, [()]):
            chosen = dict(zip(named, options, strict=True))
            given = tuple(chosen[name] for name in op.formula.options)
            yield pytest.param(op, given, id=f"{key}{given or ''}")


ALL = [*cases(), *adjoints()]
FORWARDS = [*cases()]


def special_values(dtype):
    half = [0.0, TINY[dtype], 1e-30, 1e-8, 0.1, 0.3, 0.5, 1.0, 2.0, 3.0, 3.5, 6.0, 17.0, 20.0, 20.5,
            40.0, 89.0, 700.0, 1e10, HUGE[dtype], math.inf]  # fmt: skip
    return numpy.array([*half, *(-one for one in half), math.nan], dtype)


def arrays_for(kernels, dtype, size, seed=0):
    """One array for each tensor; special values first, in all pairs where there are two."""
    rng = numpy.random.default_rng(seed)
    values = special_values(dtype)
    count = len(required(kernels))
    pairs = numpy.array([*itertools.product(values, repeat=2)] if count > 1 else values[:, None])
    made = []
    for number in range(count):
        array = (rng.standard_normal(size) * 4).astype(dtype)
        column = pairs[:, number % 2][:size]
        array[: len(column)] = column
        made.append(array)
    return made


def required(kernels):
    return [name for name in kernels.formula.tensors if kernels.choices.get(name) != ()]


def missing(kernels):
    return tuple(name for name in kernels.formula.tensors if kernels.choices.get(name) == ())


def meaning(kernels, arrays, options):
    given = iter(arrays)
    ordered = [
        None if name in missing(kernels) else next(given) for name in kernels.formula.tensors
    ]
    with numpy.errstate(all="ignore"):
        return numpy.asarray(kernels.meaning(numpy, ordered, options))


def close(found, wanted, units, smallest, gradient=None):
    """Within units in the last place; infinities and NaN at the same places.

    An infinite gradient meets slopes that are 0 one way, and a last subnormal number the other.
    """
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype
    if gradient is not None:
        known = numpy.isfinite(gradient)
        found, wanted = found[known], wanted[known]
        smallest = smallest[known]
    numpy.testing.assert_array_equal(numpy.isnan(found), numpy.isnan(wanted))
    odd = numpy.isnan(wanted) | numpy.isinf(wanted)
    eps = numpy.finfo(found.dtype).eps
    with numpy.errstate(all="ignore"):
        # The last finite numbers may round to infinity one way, and not the other.
        huge = abs(wanted) > numpy.finfo(found.dtype).max / 8
        same = found == wanted
        near = abs(found - wanted) <= units * eps * abs(wanted) + smallest
    wrong = ~(same | near | (odd & numpy.isnan(wanted)) | (huge & (abs(found) > 1e30)))
    assert not wrong.any(), (found[wrong][:5], wanted[wrong][:5])


def lost(kernels, arrays):
    """What is lost where terms cancel, or a fit ends: of 1, or of the gradient."""
    finfo = numpy.finfo(arrays[0].dtype)
    scale = numpy.ones(arrays[0].shape)
    if kernels.formula.tensors[0] == "gradient":
        scale = abs(arrays[0])
    elif len(arrays) > 1:
        scale = numpy.maximum(abs(arrays[0]), abs(arrays[1]))
    with numpy.errstate(all="ignore"):
        return numpy.nan_to_num(64 * float(finfo.eps) * scale, nan=0.0, posinf=finfo.max)


SIZES = [0, 1, 17, FEW - 1, FEW, FEW + 1, 2047, 2049, AT_ONCE, AT_ONCE + 1]


@pytest.mark.parametrize("dtype", [F32, F64], ids=["single", "double"])
@pytest.mark.parametrize(("op", "options"), ALL)
def test_kernels_agree_with_the_meaning_at_every_size(op, options, dtype):
    kernels = op.formula
    for size in SIZES:
        arrays = arrays_for(kernels, dtype, size)
        with numpy.errstate(all="ignore"), torch.backends.native.flags(enabled=False):
            kernel = kernels.written(dtype, options, missing(kernels))
            found = kernel(*arrays)
        close(found, meaning(kernels, arrays, options), 64, lost(kernels, arrays))


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("op", "options"), FORWARDS)
def test_half_precision_is_single_rounded_once(op, options, half):
    kernels = op.formula
    for size in (17, FEW + 1):
        tensors = [torch.tensor(one).to(half) for one in arrays_for(kernels, F32, size)]
        named = dict(zip(required(kernels), [one._array for one in tensors], strict=True))
        named |= dict.fromkeys(missing(kernels)) | dict(zip(kernels.options, options, strict=True))
        with numpy.errstate(all="ignore"):
            found = op.forward(numpy, **named)
        wide = [one.float().numpy() for one in tensors]
        wanted = meaning(kernels, wide, kernels.in_half(options, tensors[0]._array.dtype))
        assert found.dtype == tensors[0]._array.dtype
        found = numpy.asarray(found.astype(F32))
        eps = 2**-10 if half is torch.float16 else 2**-7
        finite = numpy.isfinite(found) & numpy.isfinite(wanted)
        error = abs(found[finite] - wanted[finite])
        assert (error <= eps * abs(wanted[finite]) + 2**-20).all()
        numpy.testing.assert_array_equal(numpy.isnan(found), numpy.isnan(wanted))


@pytest.mark.parametrize(
    ("op", "options"), [one for one in ALL if len(required(one.values[0].formula)) > 1]
)
def test_shapes_broadcast_as_the_meaning_does(op, options):
    kernels = op.formula
    first, *rest = arrays_for(kernels, F64, 12)
    shapes = [first.reshape(3, 1, 4), *[one[:4].reshape(1, 4) for one in rest]]
    wide = [first.reshape(3, 1, 4), *[one[:2].reshape(2, 1) for one in rest]]
    for arrays in (shapes, wide):
        with numpy.errstate(all="ignore"):
            found = kernels.written(F64, options, missing(kernels))(*arrays)
        close(found, meaning(kernels, arrays, options), 64, 1e-12)


# Other back ends ----------------------------------------------------------------------------------


@pytest.mark.skipif(not is_available(), reason="needs llvmlite")
@pytest.mark.parametrize("dtype", [F32, F64], ids=["single", "double"])
@pytest.mark.parametrize(("op", "options"), ALL)
def test_machine_code_agrees_with_the_meaning(op, options, dtype):
    kernels = op.formula
    arrays = arrays_for(kernels, dtype, 2112)
    named = tuple(kernels.named(options, missing(kernels)).items())
    made = native_kernel(kernels.formula, tuple(arrays), (named, repr(named)))
    if made is None:
        with pytest.raises(NotLowered):  # a function of C's library, for which NumPy is quicker
            lowered(kernels, arrays, options)
        return
    (found,) = made.run(*arrays)
    gradient = arrays[0] if kernels.formula.tensors[0] == "gradient" else None
    wanted = meaning(kernels, arrays, options)
    close(found, wanted, 96, lost(kernels, arrays), gradient)


def lowered(kernels, arrays, options):
    b = Builder()
    shapes = {
        name: b.input(one.shape, one.dtype.str[1:], (1,))
        for name, one in zip(required(kernels), arrays, strict=True)
    }
    return b, value(b, kernels.root(options, missing(kernels)), shapes), shapes


@pytest.mark.parametrize("dtype", [F32, F64], ids=["single", "double"])
@pytest.mark.parametrize(("op", "options"), ALL)
def test_the_lowered_program_agrees_with_the_meaning(op, options, dtype):
    kernels = op.formula
    arrays = arrays_for(kernels, dtype, 500)
    b, made, given = lowered(kernels, arrays, options)
    known = {given[name].id: one for name, one in zip(required(kernels), arrays, strict=True)}
    if any(one.op in ("erf", "erfc") for one in b.values):
        return  # of which NumPy has none; machine code is asked above
    with numpy.errstate(all="ignore"):
        found = elementwise(b.values, made, known)
    close(numpy.asarray(found), meaning(kernels, arrays, options), 96, lost(kernels, arrays))


C_HEAD = "#include <math.h>\ntypedef double T;\n#define T(x) ((T)(x))\n"


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_c_agrees_with_the_meaning(tmp_path):
    """All formulas as the expressions that CUDA gets, compiled as C in double."""
    wanted, text = [], [C_HEAD]
    for number, param in enumerate(ALL):
        op, options = param.values
        kernels = op.formula
        names = required(kernels)
        expression = one_expression(kernels.root(options, missing(kernels)), names)
        assert expression is not None, param.id
        given = ", ".join(f"const double* p{i}" for i in range(len(names)))
        loads = " ".join(f"double x{i} = p{i}[i];" for i in range(len(names)))
        text.append(f"void f{number}({given}, double* out, long n) {{ for (long i = 0; i < n; ++i) "
                    f"{{ {loads} out[i] = {expression}; }} }}")  # fmt: skip
        wanted.append((kernels, options))
    source, library = tmp_path / "f.c", tmp_path / "f.so"
    source.write_text("\n".join(text))
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source, "-lm"], check=True)
    loaded = ctypes.CDLL(str(library))
    for number, (kernels, options) in enumerate(wanted):
        arrays = arrays_for(kernels, F64, 500)
        out = numpy.empty(500)
        pointers = [ctypes.c_void_p(one.ctypes.data) for one in (*arrays, out)]
        getattr(loaded, f"f{number}")(*pointers, ctypes.c_long(500))
        close(out, meaning(kernels, arrays, options), 96, lost(kernels, arrays))


# Derivatives --------------------------------------------------------------------------------------


def smooth_points(kernels):
    """Points away from kinks, poles and ends."""
    rng = numpy.random.default_rng(3)
    low, high = {"logit": (0.11, 0.89), "xlogy": (0.1, 5), "log1p": (-0.9, 5)}.get(
        kernels.formula.name, (-5, 5)
    )
    return [rng.uniform(low, high, 40) + 0.00123 for _ in required(kernels)]


@pytest.mark.parametrize(("op", "options"), FORWARDS)
def test_a_derivative_by_hand_equals_the_derived_one(op, options):
    kernels = op.formula
    arrays = smooth_points(kernels)
    named = kernels.named(options, missing(kernels))
    tensors = [torch.tensor(one, requires_grad=True) for one in arrays]
    given = dict(zip(required(kernels), tensors, strict=True)) | named
    out = op.function(**{one.name: given[one.name] for one in op.params})
    grads = torch.autograd.grad(out.sum(), tensors)
    for name, grad in zip(required(kernels), grads, strict=True):
        body = kernels.formula.body(named)
        slope = derive.slope(body, name, is_part=True)
        known = dict(zip(required(kernels), arrays, strict=True))
        wanted = evaluated(slope, known)
        numpy.testing.assert_allclose(grad.numpy(), wanted, rtol=1e-9, atol=1e-11)


def evaluated(root, given):
    steps = Steps(tuple(given), [], lambda options: root, "test", {})
    made = steps(*given.values())
    return numpy.broadcast_to(made, next(iter(given.values())).shape)


@pytest.mark.parametrize(("op", "options"), FORWARDS)
def test_conditions_that_hold_at_points_have_a_slope_by_hand(op, options):
    kernels = op.formula
    named = kernels.named(options, missing(kernels))
    derived = [name for name in required(kernels) if "backward" in op.rules[name].__globals__]
    for name in derived:
        if name not in kernels.formula.slopes:
            derive.slope(kernels.formula.body(named), name)  # raises where one is needed
