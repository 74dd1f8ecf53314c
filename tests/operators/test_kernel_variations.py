"""The choice among kernels gives what the operator means, for all that its samples are varied to.

`test_kernels.py` goes around the numbers in conditions. Most of their questions are about something
else: the dtype, the order in memory, the dims, an option. Here samples are changed one thing at a
time, so that each such question is answered with no by something that the kernel gets wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

import pullback as torch
from pullback.core.dtype import bfloat16
from pullback.operators.arrays import native
from pullback.operators.choice import choice_among
from pullback.operators.conditions import Condition
from pullback.operators.declare import OPERATORS
from pullback.operators.kernels import Kernel
from pullback.testing import samples_kernels

sys.path.insert(0, str(Path(__file__).parent))
from meanings import WITH_KERNELS, around, holds, in_double, listed, scale_of

sys.path.pop(0)

# What callers have seen to, so that neither a kernel nor the meaning asks it again.
_POOLS = """
    _average _spread_average _avg_pool1d _avg_pool2d _avg_pool3d _adaptive_avg_pool1d
    _adaptive_avg_pool2d _adaptive_avg_pool3d _max_pool1d _max_pool2d _max_pool3d
    _adaptive_max_pool1d _adaptive_max_pool2d _adaptive_max_pool3d _bare_max_pool _col2im
"""
_LAYERS = """
    _attention_weights _mix _nll_adjoint _softmax_adjoint _log_softmax_adjoint batch_standardise
    group_standardise layer_standardise convolution convolution_weight transposed_convolution
    recurrence put_places
"""
SEEN_TO = {
    "shapes": _POOLS + _LAYERS + "_cross_entropy_adjoint cross_entropy nll_loss",
    "options": _POOLS + _LAYERS + "_like",
    "dtypes": _LAYERS + "_cross_entropy_adjoint add sub _kron outer _where",
    "kinds of dtypes": "_attention_weights batch_standardise recurrence convolution_weight _where",
    "the order in memory of what autograd hands on": "_log_softmax_adjoint recurrence",
}
# What the kernels of these do to infinities, or torch's do as well: they are multiplied by zeros of
# the padding, by what was rounded to 0, or by what is not chosen.
INFINITE = "_cross_entropy_adjoint prod batch_standardise group_standardise layer_standardise"
NOT_FINITE = "recurrence convolution_weight transposed_convolution"  # NaN as well
HALF = torch.zeros(0, dtype=bfloat16)._array.dtype
CHARS = ("e", HALF, "f", "d", "F", "D", "l", "i", "B", "?")
MOST = 1 << 18  # elements of what is varied; the other side of larger sizes is `test_kernels.py`'s


# Variations ---------------------------------------------------------------------------------------


def cast(array, char):
    dtype = numpy.dtype(char)
    if dtype.kind == "c":
        array = array + 1j * array[::-1] if array.ndim else array + 0.5j
    return (abs(array) * 3 if dtype.kind in "ui" else array).astype(dtype)


def strided(array):
    wide = numpy.zeros([2 * n for n in array.shape], array.dtype)
    view = wide[(..., *[slice(None, None, 2)] * array.ndim)]
    view[...] = array
    return view


def backwards(array):
    return array[::-1].copy()[::-1] if array.ndim else array


def spread(array):
    return numpy.broadcast_to(array[:1], array.shape) if array.size and array.ndim else array


LAYOUTS = (strided, lambda array: numpy.array(array, order="F"), backwards, spread)
SHAPES = (
    lambda array: array[None],
    lambda array: array[..., None],
    lambda array: array[0, ...] if array.ndim and len(array) else array,
    lambda array: array[:0] if array.ndim else array,
    lambda array: array[..., :0] if array.ndim else array,
    lambda array: array[:-1] if array.ndim else array,
    lambda array: numpy.concatenate([array, array]) if array.ndim else array,
    lambda array: array.reshape(-1)[:1].reshape(()) if array.size else array,
)


def holding(number, place):
    def change(array):
        array = numpy.array(array)
        array.reshape(-1)[place : place + 1 or None] = number
        return array

    return change


VALUES = (
    lambda array: numpy.round(array),
    lambda array: array * 0,
    lambda array: -abs(array) - 1,
)
EXTREMES = (holding(numpy.inf, 0), holding(-numpy.inf, -1), lambda array: array * 1e30)
NAN = (holding(numpy.nan, 0), holding(numpy.nan, -1))


def seen_to(op, what):
    return op.name in SEEN_TO[what].split()


def variations(op, sample, options) -> Iterator[dict[str, Any]]:
    """The sample with one thing changed; `options` are the values that other samples have."""
    arrays = {name: one for name, one in sample.items() if isinstance(one, numpy.ndarray)}
    floats = {name: one for name, one in arrays.items() if one.dtype.kind == "f"}
    if not seen_to(op, "kinds of dtypes"):
        for char in CHARS:
            yield {**sample, **{name: cast(one, char) for name, one in floats.items()}}
    for name, one in arrays.items():
        if not seen_to(op, "dtypes") and one.dtype.kind in "fui":
            for char in CHARS:
                yield {**sample, name: cast(one, char)}
        for change in changes(op):
            yield {**sample, name: change(one)}
        if name in floats:
            for change in values(op):
                yield {**sample, name: change(one)}
    for change in changes(op):
        yield {**sample, **{name: change(one) for name, one in arrays.items()}}
    for name, one in sample.items():
        if name not in arrays and not seen_to(op, "options"):
            for other in (*options.get(name, ()), *of_kind(name, one, arrays)):
                yield {**sample, name: other}


def changes(op) -> tuple[Callable[[Any], Any], ...]:
    layouts = () if seen_to(op, "the order in memory of what autograd hands on") else LAYOUTS
    return layouts if seen_to(op, "shapes") else (*layouts, *SHAPES)


def values(op) -> tuple[Callable[[Any], Any], ...]:
    if op.name in NOT_FINITE.split():
        return VALUES
    return (*VALUES, *NAN) if op.name in INFINITE.split() else (*VALUES, *NAN, *EXTREMES)


def of_kind(name, value, arrays):
    """Other values that an option may have."""
    if isinstance(value, bool):
        return (not value,)
    if name == "dtype":
        return (None, torch.float64, torch.float32, torch.complex64, torch.int64)
    if name != "dim" or not arrays:
        return ()
    single = tuple(range(max(one.ndim for one in arrays.values())))
    return single if type(value) is int else (None, (), single, *[(dim,) for dim in single])


def is_plain(value):
    if isinstance(value, tuple):
        return all(type(one) is int for one in value)
    return value is None or isinstance(value, bool | int | float | str)


def is_tried(sample):
    """Whether nothing in it, and nothing that it broadcasts to, is large; and there is its dim."""
    arrays = [one for one in sample.values() if isinstance(one, numpy.ndarray)]
    dims = sample.get("dim")
    ndim = arrays[0].ndim if arrays else 0
    if any(dim >= ndim for dim in (dims if isinstance(dims, tuple) else (dims or 0,)) if ndim):
        return False
    try:
        shape = numpy.broadcast_shapes(*[one.shape for one in arrays])
    except ValueError:
        shape = ()
    return max([numpy.prod(shape), *[one.size for one in arrays]]) <= MOST


def varied(op) -> Iterator[dict[str, Any]]:
    """The variations of the smallest sample of each kernel, and of one of middle size."""
    on_host = [one for one in op.kernels if one.on == "host"]
    numbers = sorted({number for one in on_host for number in around(one)})
    samples = samples_kernels.samples_of(op, numbers)
    options: dict[str, dict[str, Any]] = {}
    optional = {param.name for param in op.params if param.kind == "optional"}
    for sample in samples:
        for name, value in sample.items():
            if is_plain(value) or name in optional:
                options.setdefault(name, {})[repr(value)] = value
    listed_options = {name: tuple(known.values()) for name, known in options.items()}
    chosen: list[dict[str, Any]] = []
    for entry in on_host:
        mine = sorted([one for one in samples if holds(op, entry, one)], key=size_of)
        for one in [*mine[:1], *mine[len(mine) // 2 :][:1]]:
            chosen += [one] if all(one is not other for other in chosen) else []
    for sample in chosen:
        with numpy.errstate(all="ignore"):
            made = [*variations(op, sample, listed_options)]
        yield from filter(is_tried, made)


def size_of(sample):
    return sum(one.size for one in sample.values() if isinstance(one, numpy.ndarray))


# Comparing ----------------------------------------------------------------------------------------


def outcome(function, sample):
    with numpy.errstate(all="ignore"):
        try:
            return listed(function(numpy, **sample))
        except Exception as error:
            return type(error)


def difference(op, forward, sample):
    """How the choice differs from the meaning; empty where it does not."""
    want, got = outcome(op.meaning, sample), outcome(forward, sample)
    if isinstance(want, type) or isinstance(got, type):
        return "" if want is got else f"{want} and {got}"
    wide = outcome(op.meaning, {name: in_double(one) for name, one in sample.items()})
    wide = want if isinstance(wide, type) else wide
    ulp = max(one.ulp for one in op.kernels if one.on == "host")
    for one, other, exact in zip(got, want, wide, strict=True):
        if one.shape != other.shape or one.dtype != other.dtype:
            return f"{other.dtype}{other.shape} and {one.dtype}{one.shape}"
        if one.flags.c_contiguous != other.flags.c_contiguous:
            return "the order in memory"
        with numpy.errstate(all="ignore"):
            scale = scale_of(op, sample, [exact]) if one.dtype.kind in "fc" else 0
            if not is_close(one, other, exact, ulp, scale):
                return f"values of {one.dtype}{one.shape}"
    return "" if shared(got, sample) == shared(want, sample) else "whose memory it is"


def shared(made, sample):
    """Which results lie in the memory of the arguments."""
    arrays = [one for one in sample.values() if isinstance(one, numpy.ndarray)]
    return [[numpy.may_share_memory(one, array) for array in arrays] for one in made]


def is_close(one, other, exact, ulp, scale):
    if one.dtype.kind not in "fcV":
        return numpy.array_equal(one, other)
    unit = 2.0**-7 if one.dtype == HALF else numpy.finfo(one.dtype).eps
    wide = numpy.complex128 if one.dtype.kind == "c" else numpy.float64
    one, other = one.astype(wide), other.astype(wide)
    exact = exact.astype(wide) if exact.shape == one.shape else other
    plain = numpy.isfinite(other)
    if not numpy.array_equal(one[~plain], other[~plain], equal_nan=True):
        return False
    off = abs(other - exact)[plain]
    off = off[numpy.isfinite(off)].max(initial=0)  # the meaning's own
    scale = max(scale, abs(other[plain]).max(initial=0))
    return bool((abs(one - other)[plain] <= 2 * (ulp * unit * scale + off)).all())


# Laws ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "op"), WITH_KERNELS)
def test_a_choice_gives_what_the_operator_means_for_all_variations_of_its_samples(name, op):
    wrong = {}
    for sample in varied(op):
        if why := difference(op, op.forward, sample):
            wrong.setdefault(why, {name: about(one) for name, one in sample.items()})
    assert not wrong, wrong


def about(value):
    return (value.shape, value.dtype.char) if isinstance(value, numpy.ndarray) else value


# Operator, kernel, and a question without which that would be wrong.
NEEDED = [
    ("sum", "short_by_dot", "keepdim is False"),
    ("sum", "few_by_dims", "(input_dtype is F32 or input_dtype is F64)"),
    ("cumsum", "sums_in_double", "input_dtype is F32"),
    ("cumsum", "sums_by_triangles", "dim == input_ndim - 1"),
    ("softmax", "few_rows", "dtype is None"),
    ("sort", "few_in_order", "not descending"),
    ("_isin", "each_pair", "elements_dtype.kind not in 'bc'"),
    ("index_select", "taken", "index_dtype is INT64"),
    ("nn.functional.linear", "rows_then_bias", "bias_dtype is input_dtype"),
    ("mm", "of_matrices", "input_dtype is mat2_dtype"),
    ("_avg_pool2d", "halves_averaged", "input_dtype.itemsize == 2"),
    ("var", "short_rows_in_double", "dim == (1,)"),
]


@pytest.mark.parametrize(("key", "name", "question"), NEEDED)
def test_a_condition_that_has_lost_a_question_is_noticed(key, name, question):
    op = OPERATORS[key]
    if not native.is_wanted() and any(one.name == name and one.machine_code for one in op.kernels):
        pytest.skip("machine code is off")
    forward = without(op, name, question)
    assert any(difference(op, forward, sample) for sample in varied(op))


def without(op, name, question):
    """The choice with one question of one kernel taken out."""
    kernels, found = [], 0
    for one in op.kernels:
        if one.name != name or one.on != "host":
            kernels.append(one)
            continue
        kept = [asked for asked in one.when.questions if asked != question]
        found += len(kept) < len(one.when.questions)
        when = Condition(*kept, limits=one.when.limits, scope=one.when.scope, facts=one.when.facts)
        other = Kernel(op, one.function, when, declines=one.declines, tries=one.tries, ulp=one.ulp)
        kernels.insert(0, other)  # before all that would take its calls
    assert found == 1, "there is no such question"
    return choice_among(op, lambda: kernels, op.meaning)
