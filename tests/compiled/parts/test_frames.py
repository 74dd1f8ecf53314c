"""Frames that wait while Python does one instruction: their handlers, their generators."""

import contextlib

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
