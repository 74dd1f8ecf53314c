"""Frames that wait while Python does one instruction: their handlers, their generators."""

import contextlib
import sys
import warnings

import pytest

import pullback as torch

LOG = []


@pytest.fixture(autouse=True)
def _empty():
    LOG.clear()


def scaled(x, k):
    print("k is", k)  # what no program does
    if k == 1:
        raise KeyError(k)
    return x * k


def handled(x, k):
    y, z = x + 1, x * 5
    try:
        return scaled(x, k)
    except KeyError:
        return y * 100 + z
    finally:
        LOG.append(y.shape)


def handled_in_a_loop(x, k):
    y = x + 1
    for _ in range(2):
        try:
            x = scaled(x, k)
        except KeyError:
            x = y
    return x


def left_by_a_block(x, k):
    y = x * 3
    with contextlib.suppress(KeyError):
        return scaled(x, k)
    return y


@pytest.mark.parametrize("function", [handled, handled_in_a_loop, left_by_a_block])
def test_a_handler_has_its_variables_where_a_call_behind_a_break_raises(compiled, function):
    f = compiled(function)
    for k in (0, 1, 2, 1):
        assert torch.equal(f(torch.ones(2), k), function(torch.ones(2), k))
    assert len(LOG) in (0, 8)


def walk(x, k):
    yield scaled(x, k)
    yield scaled(x, k + 1)


WALKS = {
    "list": lambda x, k: list(walk(x, k)),
    "tuple": lambda x, k: tuple(walk(x, k)),
    "expression": lambda x, k: list(scaled(x, k) for _ in range(2)),  # noqa: C400 (what is tested)
    "arguments": lambda x, k: (lambda *given: given)(*walk(x, k)),
    "next": lambda x, k: (lambda it: [next(it), next(it), next(it, None)])(walk(x, k)),
    "sorted": lambda x, k: sorted(walk(x, k), key=lambda one: -float(one.sum())),
    "unpacked": lambda x, k: [*walk(x, k)],
}


@pytest.mark.parametrize("how", WALKS)
def test_what_a_generator_yields_behind_a_break_is_no_result_of_the_call(compiled, how):
    function = WALKS[how]
    f = compiled(function)
    for k in (2, 4, 2):
        ours, theirs = f(torch.ones(2), k), function(torch.ones(2), k)
        assert type(ours) is type(theirs)
        assert [one is None or one.tolist() for one in ours] == [
            one is None or one.tolist() for one in theirs
        ]


def named():
    return sys._getframe(1).f_code.co_name


def named_behind_a_break():
    print("here")
    return named(), sys._getframe(1).f_code.co_name, sys._getframe(1).f_lineno


def looks_once(x):
    return x + 1, named()


def looks_behind_a_break(x):
    print("first")
    return x + 1, named_behind_a_break()


def looks_deeper(x):
    return looks_behind_a_break(x), named()


def names(x):
    y = 3.0
    return x * y, sorted(locals()), sorted(vars()), dir()


def names_behind_a_break(x):
    y = 3.0
    print("first")
    return x * 2, sorted(locals()), sorted(vars()), dir()


def evaluates(x):
    scale = 3.0  # noqa: F841 (evaluated)
    return x * eval("scale")


def evaluates_behind_a_break(x):
    scale = 3.0  # noqa: F841 (evaluated)
    print("first")
    return x * eval("scale")


def evaluates_inside(x):
    scale = 3.0

    def inner(y):
        return y * scale * len(locals()) * eval("scale + 1")

    return inner(x)


scale = 100.0
LOOKING = [
    looks_once, looks_behind_a_break, looks_deeper, names, names_behind_a_break, evaluates,
    evaluates_behind_a_break, evaluates_inside,
]  # fmt: skip


@pytest.mark.parametrize("function", LOOKING)
def test_who_looks_at_the_frames_of_a_function_sees_its_own(compiled, function):
    f = compiled(function)
    for _ in range(3):
        assert str(f(torch.ones(2))) == str(function(torch.ones(2)))


def tells(text):
    warnings.warn(text, stacklevel=2)


def test_a_warning_of_a_caller_names_the_callers_line(compiled):
    def function(x):
        tells("one")
        x = x + 1
        tells("two")
        return x

    f = compiled(function)
    with pytest.warns(UserWarning, match="one|two") as told:
        f(torch.ones(2))
    first = function.__code__.co_firstlineno
    assert [(one.filename, one.lineno - first) for one in told] == [(__file__, 1), (__file__, 3)]
