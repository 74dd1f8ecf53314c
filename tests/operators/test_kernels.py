"""Every kernel gives what its operator means, at the sizes where it takes over."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy
import pytest

import pullback as torch
from pullback.core.addresses import widened
from pullback.operators import conditions, order
from pullback.operators.arrays import native
from pullback.operators.choice import choice_source, notes
from pullback.operators.conditions import at_most, below, flat, floating, given, host, says
from pullback.operators.declare import (
    OPERATORS,
    Array,
    Namespace,
    elementwise,
    kernel,
    primitive,
)
from pullback.testing import samples_kernels

sys.path.insert(0, str(Path(__file__).parent))
from meanings import (
    WITH_KERNELS,
    around,
    evaluated,
    holds,
    in_double,
    listed,
    meaning,
    run,
    scale_of,
)

sys.path.pop(0)

ENTRIES = [
    pytest.param(op, one, id=f"{key}: {one.name}")
    for key, op in sorted(OPERATORS.items())
    for one in op.kernels
    if one.on == "host"
]


def compared(op, entry, sample):
    """Hold one result of a kernel to the meaning; whether it was not declined."""
    given_arrays = {k: v.copy() for k, v in sample.items() if isinstance(v, numpy.ndarray)}
    made = run(op, entry, sample)
    for name, before in given_arrays.items():
        numpy.testing.assert_array_equal(sample[name], before, f"it wrote over {name}")
    if made is None:
        assert entry.declines
        return False
    wanted = meaning(op, sample)
    wide = meaning(op, {name: in_double(one) for name, one in sample.items()})
    made = listed(made)
    assert len(made) == len(wanted)
    scale = scale_of(op, sample, wide)
    arrays = [one for one in sample.values() if isinstance(one, numpy.ndarray)]
    for got, want, exact in zip(made, wanted, wide, strict=True):
        assert got.shape == want.shape
        assert got.dtype == want.dtype
        assert got.flags.c_contiguous == want.flags.c_contiguous
        shares = [numpy.may_share_memory(got, one) for one in arrays]
        assert shares == [numpy.may_share_memory(want, one) for one in arrays]
        if got.dtype.kind not in "fc":
            numpy.testing.assert_array_equal(got, want)
            continue
        unit = numpy.finfo(got.dtype).eps * scale
        off = numpy.abs(want - exact).max(initial=0)  # the meaning's own
        numpy.testing.assert_allclose(
            got, exact, rtol=0, atol=entry.ulp * unit + off, err_msg=f"{entry} of {got.shape}"
        )
    return True


def sampled(op, entry):
    assert op in samples_kernels.SAMPLES, f"samples_kernels.py has nothing for {op}"
    return samples_kernels.samples_of(op, around(entry))


@pytest.mark.parametrize(("op", "entry"), ENTRIES)
def test_a_kernel_gives_what_the_operator_means_wherever_its_condition_holds(op, entry):
    if entry.machine_code and not native.is_wanted():
        pytest.skip("machine code is off")
    samples = [one for one in sampled(op, entry) if holds(op, entry, one)]
    ran = sum([compared(op, entry, one) for one in samples])
    assert ran, "no sample reaches it"


@pytest.mark.parametrize(("op", "entry"), ENTRIES)
def test_samples_stand_on_both_sides_of_every_number_of_a_condition(op, entry):
    samples = sampled(op, entry)
    for what, number in entry.when.limits:
        seen = {
            evaluated(what, op, entry.when, one) for one in samples if asks(op, entry, what, one)
        }
        missing = {number - 1, number, number + 1} - seen
        assert not missing, f"no sample has {what} at {sorted(missing)}"


def asks(op, entry, what, sample):
    try:
        evaluated(what, op, entry.when, sample)
    except (IndexError, NameError, AttributeError):  # of other dims, or of no such tensor
        return False
    return True


@pytest.mark.parametrize(("name", "op"), WITH_KERNELS)
def test_the_written_choice_takes_the_first_kernel_whose_condition_holds(name, op):
    on_host = [one for one in op.kernels if one.on == "host"]
    chosen = set()
    ran = []
    tell = lambda of, one: ran.append(one) if of is op else None  # noqa: E731
    numbers = sorted({n for one in on_host for n in around(one)})
    notes.tell(tell)
    try:
        for sample in samples_kernels.samples_of(op, numbers):
            ran.clear()
            op.forward(numpy, **sample)
            willing = [one for one in on_host if holds(op, one, sample)]
            expected = [one for one in willing if not one.declines][:1] or [None]
            kept = willing[: willing.index(expected[0])] if expected[0] else willing
            assert ran[0] in [*kept, *expected], (ran, sample)  # the first: a kernel may choose too
            chosen.add(ran[0])
    finally:
        notes.forget(tell)
    if not native.is_wanted():
        chosen |= {one for one in on_host if one.machine_code}
    shadowed = [one for one in on_host if one not in chosen]
    assert not shadowed, "these never run: others before them take their calls"


# The machinery itself ----------------------------------------------------------------------------


@pytest.fixture
def doubled():
    """An operator for this test alone."""
    before = dict(OPERATORS)

    @primitive(jvp=None, name="_doubled_for_a_test")
    def declared(
        xp: Namespace, input: Array, size: int = 2, other: Array | None = None, *, mode: str = "a"
    ) -> Array:
        """Twice the input."""
        return input * size

    yield declared
    OPERATORS.clear()
    OPERATORS.update(before)


def test_the_first_kernel_whose_condition_holds_runs_and_else_the_meaning(doubled):
    @kernel(doubled, when=host & at_most(3) & flat)
    def _few(input):
        return input + input

    @kernel(doubled, when=host & at_most(3) & floating & given(mode="b"), declines=True)
    def _declined(input, input_size):
        return None if input_size == 2 else input + 100

    @kernel(doubled, when=says("other is not None", "other_ndim == 1"))
    def _with_another(input, other):
        return input + other

    forward, of = doubled.op.forward, numpy.ones
    assert forward(numpy, of(3)).tolist() == [2, 2, 2]
    assert forward(numpy, of(4), 3).tolist() == [3] * 4  # the meaning
    assert forward(numpy, of((1, 1)), mode="b").tolist() == [[101]]
    assert forward(numpy, of((1, 2)), mode="b").tolist() == [[2, 2]]  # declined
    assert forward(numpy, of((1, 2)), 2, of(2), mode="b").tolist() == [[2, 2]]
    assert forward(numpy, of((1, 4)), 2, of(4) * 8).tolist() == [[9] * 4]
    assert forward(numpy, of((1, 4)), 2, of((1, 4)) * 8).tolist() == [[2] * 4]


def test_a_kernel_inside_another_function_is_asked_by_its_own_parameters(doubled):
    """As those are that find indices, where addresses are short (core/addresses)."""

    def few(input, size):
        return input + size

    kernel(doubled, when=host & at_most(3))(widened(few, ()))
    assert doubled.op.forward(numpy, numpy.ones(3)).tolist() == [3, 3, 3]


def test_an_operator_whose_meaning_is_one_array_function_still_asks_its_kernels(doubled):
    before = dict(OPERATORS)

    @elementwise(input=lambda g: -g, name="_negated_for_a_test")
    def negated(xp: Namespace, input: Array) -> Array:
        """The negative."""
        return xp.negative(input)

    @kernel(negated, when=host & at_most(2))
    def _few(input):
        return 0 - input

    OPERATORS.clear()
    OPERATORS.update(before)
    ran = []
    tell = lambda op, one: ran.append(one and one.name)  # noqa: E731
    notes.tell(tell)
    try:
        assert negated(torch.ones(2)).tolist() == [-1, -1]
        assert negated(torch.ones(3)).tolist() == [-1] * 3
    finally:
        notes.forget(tell)
    assert ran == ["few", None]


def test_questions_that_neighbours_share_are_asked_once(doubled):
    for number in (1, 2, 3):

        def few(input):
            return input + input

        few.__name__ = f"few{number}"
        kernel(doubled, when=host & floating & at_most(number))(few)
    text = choice_source(doubled.op)
    assert text.count("xp is numpy") == text.count("is F32") == text.count("input.size") == 1
    assert text.count("return input + input") == 3  # in line
    assert max(map(len, text.splitlines())) <= 100


# Questions that Python leaves before it has evaluated them to their end, for some input.
SKIPPING = [
    "a_ndim == 2 == b_ndim",
    "1 < a_size < b_size < 5",
    "(a_ndim == 1 or b_ndim == 1)",
    "not (a_ndim == 2 and b_ndim == 2)",
    "(a_size > 3 and b_size > 3 or b_ndim)",
    "both > 3 == b_size",
    "(a_ndim or both) and both * 2 == 8",
]


@pytest.mark.parametrize("first", SKIPPING)
@pytest.mark.parametrize("second", SKIPPING)
def test_what_a_question_may_skip_is_not_known_after_it(first, second):
    """Such names were taken as known, and had no value when the next kernel asked for them."""
    before = dict(OPERATORS)
    try:

        @primitive(jvp=None, name="_joined_for_a_test")
        def joined(xp: Namespace, a: Array, b: Array) -> Array:
            """The meaning."""
            return xp.asarray("meaning")
    finally:
        OPERATORS.clear()
        OPERATORS.update(before)

    own = conditions.fact("both", "a_size + b_size")
    questions = [first, f"b_ndim + a_size > 2 and {second}", second, "b_ndim == 1", "both"]
    for number, question in enumerate(questions):
        kernel(joined, when=says(question) & own)(_answers(number))
    shapes = [(), (1,), (2,), (4,), (1, 2), (2, 2), (2, 3)]
    for a, b in itertools.product(map(numpy.ones, shapes), repeat=2):
        known = {"a_ndim": a.ndim, "b_ndim": b.ndim, "a_size": a.size, "b_size": b.size}
        known["both"] = a.size + b.size
        willing = [number for number, one in enumerate(questions) if eval(one, known)]
        expected = f"{willing[0]}: {b.ndim}, {a.size + b.size}" if willing else "meaning"
        assert str(joined.op.forward(numpy, a, b)) == expected, choice_source(joined.op)


def test_names_are_sure_as_far_as_python_evaluates_them():
    found = order.names_asked("(a or b) < (c if d else e) and not (f and g) and h(lambda: i)")
    sure = {name: how for name, _, how in found}
    assert {name for name, how in sure.items() if how == "always"} == {"a"}
    assert {name for name, how in sure.items() if how == "if so"} == {"f", "h"}
    assert sorted(sure) == list("abcdefghi")


def _answers(number):
    def answer(b_ndim, both):
        return numpy.asarray(f"{number}: {b_ndim}, {both}")

    answer.__name__ = f"answer{number}"
    return answer


@pytest.mark.parametrize(
    ("when", "takes", "said"),
    [
        (says("sise < 3"), "input", "sise"),
        (host, "input, length", "length"),
        (at_most(3).of("inputs"), "input", "inputs_size"),
    ],
)
def test_a_kernel_that_names_what_there_is_not_fails_when_entered(doubled, when, takes, said):
    function = eval(f"lambda {takes}: input")
    with pytest.raises(TypeError, match=said):
        kernel(doubled, when=when)(function)


def test_a_kernel_behind_one_that_takes_all_calls_fails_when_written(doubled):
    kernel(doubled)(lambda input: input * 2)

    @kernel(doubled, when=below(3))
    def _never(input):
        return input

    with pytest.raises(TypeError, match="nothing is left for"):
        doubled.op.forward(numpy, numpy.ones(2))


def test_functions_have_no_notes_but_while_somebody_asks_for_them():
    forward = OPERATORS["sum"].forward
    forward(numpy, numpy.ones(3))
    plain = forward.__code__.co_code
    ran = []
    tell = lambda op, one: ran.append((op.name, one and one.name))  # noqa: E731
    notes.tell(tell)
    forward(numpy, numpy.ones(3, "f"))
    assert forward.__code__.co_code != plain
    notes.forget(tell)
    assert forward.__code__.co_code == plain
    assert ran == [("sum", "short_by_dot")]
