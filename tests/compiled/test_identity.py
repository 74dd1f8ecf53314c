"""Whether two objects are one is a guard, by whatever a function asks it."""

import operator
import types

import pytest

import pullback as torch


class _Usual:
    pass


class _Undecided:
    def __eq__(self, other):
        return NotImplemented

    __hash__ = object.__hash__


ASKED = {
    "==": lambda at: at.a == at.b,
    "!=": lambda at: at.a != at.b,
    "is": lambda at: at.a is at.b,
    "is not": lambda at: at.a is not at.b,
    "operator.eq": lambda at: operator.eq(at.a, at.b),
    "operator.is_": lambda at: operator.is_(at.a, at.b),
    "in a list": lambda at: at.a in [at.b],
    "in a kept list": lambda at: at.a in at.kept,
    "index": lambda at: [at.b, at.a].index(at.a) == 0,
    "equal tuples": lambda at: (at.a,) == (at.b,),
    "set": lambda at: len({at.a, at.b}) == 1,
    "dict": lambda at: len({at.a: 1, at.b: 2}) == 1,
    "hash": lambda at: hash(at.a) == hash(at.b),
    "id": lambda at: id(at.a) == id(at.b),
    "match": lambda at: [None, at.a][1] == at.b,
    "any": lambda at: any(at.b is one for one in (at.a, None)),
}


@pytest.mark.filterwarnings("ignore:.*run eagerly")
@pytest.mark.parametrize("kind", [_Usual, _Undecided])
@pytest.mark.parametrize("asked", ASKED)
def test_two_objects_become_one_and_two_again(asked, kind):
    def seen(wrap):
        at = types.SimpleNamespace(a=kind(), b=kind())
        at.kept = [at.b]
        step = wrap(lambda x: x * 2 if ASKED[asked](at) else x * 3)
        for other in (at.b, at.b, at.a, at.a, kind(), at.a):
            at.b = at.kept[0] = other
            yield step(torch.ones(2)).tolist()

    expected = list(seen(lambda step: step))
    assert list(seen(lambda step: torch.compile(step, backend="python"))) == expected


@pytest.mark.filterwarnings("ignore:.*run eagerly")
@pytest.mark.parametrize("asked", ASKED)
def test_objects_that_a_break_hands_on(asked):
    def seen(wrap):
        items = iter([])

        @wrap
        def step(x):
            a = next(items)
            b = next(items)
            at = types.SimpleNamespace(a=a, b=b, kept=[b])
            return x * 2 if ASKED[asked](at) else x * 3

        one, two = _Usual(), _Usual()
        for pair in ((one, two), (one, two), (two, two), (one, one), (two, one), (one, one)):
            items = iter(pair)
            yield step(torch.ones(2)).tolist()

    expected = list(seen(lambda step: step))
    assert list(seen(lambda step: torch.compile(step, backend="python"))) == expected


def _sums(w, x):
    w.grad = None
    (w * x).sum().backward()


def test_a_stored_gradient_that_is_a_result_is_one_tensor(compiled):
    w = torch.ones(3, requires_grad=True)
    kept = []

    def returned(x):
        _sums(w, x)
        return w.grad, x * 2

    def noted(x):
        _sums(w, x)
        kept.append(w.grad)
        return x * 2

    def given(x):
        w.grad = x * 2
        return x * 3, w.grad

    def behind_a_break(x):
        _sums(w, x)
        found = w.grad
        print("here")
        return found

    for function, get in (
        (returned, lambda made: made[0]),
        (noted, lambda made: kept[-1]),
        (given, lambda made: made[1]),
        (behind_a_break, lambda made: made),
    ):
        f = compiled(function)
        for _ in range(3):
            found = get(f(torch.ones(3)))
            assert found is w.grad
            found.zero_()
            assert not w.grad.any()


def test_gradients_that_share_their_memory_do_so(compiled):
    w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)

    def one_for_both(x):
        w.grad = v.grad = x * 2

    def a_part(x):
        _sums(w, x)
        return w.grad[:1]

    f = compiled(one_for_both)
    for _ in range(2):
        f(torch.ones(3))
        assert w.grad is v.grad
    g = compiled(a_part)
    for _ in range(2):
        g(torch.ones(3)).fill_(7.0)
        assert w.grad.tolist() == [7.0, 1.0, 1.0]
