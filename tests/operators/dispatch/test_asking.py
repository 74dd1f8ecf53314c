"""Every public function asks a `__torch_function__` that is no tensor's, as the user called it."""

import gc
import inspect
import subprocess
import sys
from collections.abc import Mapping

import pytest

import pullback as torch
from pullback.operators.declare import QUICK
from pullback.operators.dispatch import asking, intercept
from pullback.testing import SAMPLES, resolve, samples_for


def duck(seen):
    class Duck:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append((func, args, kwargs))
            return "taken"

    return Duck()


@pytest.fixture
def seen():
    seen = []
    yield seen
    seen.clear()
    gc.collect()


@pytest.fixture
def t():
    return torch.ones(2, 2)


CALLS = {
    "clamp": lambda d, t: torch.clamp(d, 0),
    "clamp_max": lambda d, t: torch.clamp_max(d, 1),
    "clamp_min": lambda d, t: torch.clamp_min(d, 1),
    "div": lambda d, t: torch.div(d, t),
    "cat": lambda d, t: torch.cat([t, d]),
    "equal": lambda d, t: torch.equal(t, d),
    "stack": lambda d, t: torch.stack([t, d]),
    "matmul": lambda d, t: torch.matmul(t, d),
    "topk": lambda d, t: torch.topk(d, 1),
    "lerp": lambda d, t: torch.lerp(t, d, 0.5),
    "clamp_": lambda d, t: torch.clamp_(d, 0, 1),
    "fill_": lambda d, t: torch.fill_(d, 1.0),
    "where": lambda d, t: torch.where(d, t, t),
    "permute": lambda d, t: torch.permute(d, (0, 1)),
    "reshape": lambda d, t: torch.reshape(d, (4,)),
    "split": lambda d, t: torch.split(d, 1),
    "pow": lambda d, t: torch.pow(t, d),
    "softmax": lambda d, t: torch.softmax(d, 0),
    "log_softmax": lambda d, t: torch.log_softmax(d, 0),
}
ONE = "flatten max mean min numel ones_like prod ravel relu sort square squeeze std sum var"
CALLS |= {name: (lambda d, t, name=name: getattr(torch, name)(d)) for name in ONE.split()}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_quick_function_asks_a_class_that_was_never_met(name, seen, t):
    assert CALLS[name](duck(seen), t) == "taken"
    assert seen[0][0] is getattr(torch, name)
    assert seen[0][2] == ({"dim": 0} if name == "split" else {})


@pytest.mark.parametrize("name", ["max", "min", "sort"])
def test_answer_of_a_class_that_was_never_met_is_not_taken_for_two_results(name, seen, t):
    assert getattr(torch, name)(duck(seen), 1) == "taken"


def test_what_is_declared_quick_takes_no_tensors_or_is_among_those_tried_here():
    tensors = {one.__name__ for one in QUICK if "input" in inspect.signature(one).parameters}
    assert tensors - {"zero_"} <= CALLS.keys()  # which writes to what it is given
    assert all(not hasattr(one, "op") for one in QUICK)


@pytest.mark.parametrize(
    "call",
    [
        lambda d, t: t @ d,
        lambda d, t: torch.linalg.cholesky(d),
        lambda d, t: torch.linalg.solve(t, d),
        lambda d, t: t.matmul(d),
        lambda d, t: t.add_(d),
        lambda d, t: t[d],
        lambda d, t: t[0, d],
        lambda d, t: torch.nn.functional.linear(d, t),
        lambda d, t: torch.fft.fft(d),
        lambda d, t: torch.special.erf(d),
        lambda d, t: torch.nn.functional.conv2d(d, t),
    ],
)
def test_first_call_with_a_new_class_asks_with_nothing_filled_in(call, seen, t):
    assert call(duck(seen), t) == "taken"
    assert seen[0][2] == {}


def test_assignment_asks_the_key_and_the_value(seen, t):
    d = duck(seen)
    t[0] = d
    t[d] = 1
    assert [one[1][1:] for one in seen] == [(0, d), (d, 1)]
    assert torch.equal(t, torch.ones(2, 2))


def test_keywords_of_an_operator_are_told_by_position_the_first_time(seen, t):
    """What was passed how is not known before the class is; from then on it is."""
    d = duck(seen)
    torch.add(t, other=d)
    torch.add(t, other=d)
    assert [one[1:] for one in seen] == [((t, d), {}), ((t,), {"other": d})]


def test_keywords_stay_keywords(seen, t):
    d = duck(seen)
    torch.add(t, d)  # from now on every function asks with what it was passed
    seen.clear()
    torch.add(t, other=d)
    torch.add(t, d, alpha=2)
    torch.sum(d, dim=0)
    assert seen[0][1:] == ((t,), {"other": d})
    assert seen[1][1:] == ((t, d), {"alpha": 2})
    assert seen[2] == (torch.sum, (d,), {"dim": 0})


DUNDERS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "remainder": lambda a, b: a % b,
    "pow": lambda a, b: a**b,
    "matmul": lambda a, b: a @ b,
    "eq": lambda a, b: a == b,
    "lt": lambda a, b: a < b,
}


@pytest.mark.parametrize("name", DUNDERS)
def test_sign_is_reported_as_its_method(name, seen, t):
    d = duck(seen)
    assert DUNDERS[name](t, d) == "taken"
    assert DUNDERS[name](t, d) == "taken"
    assert [one[0] for one in seen] == [getattr(torch.Tensor, name)] * 2
    assert seen[1][1:] == ((t, d), {})


def test_python_functions_hand_their_options_over_by_name(seen, t):
    F = torch.nn.functional  # noqa: N806 (as everyone calls it)
    d = duck(seen)
    F.relu(d)
    F.dropout(d, 0.25)
    F.layer_norm(d, (2,))
    assert seen[0] == (F.relu, (d,), {"inplace": False})
    assert seen[1] == (F.dropout, (d,), {"p": 0.25, "training": True, "inplace": False})
    assert seen[2] == (F.layer_norm, (d, (2,)), {"weight": None, "bias": None, "eps": 1e-5})


def test_list_of_einsums_operands_is_taken_apart(seen, t):
    d = duck(seen)
    torch.einsum("ij,jk->ik", (d, t))
    torch.einsum("ij,jk->ik", d, t)
    assert seen[0] == seen[1] == (torch.einsum, ("ij,jk->ik", d, t), {})


def test_subclass_is_asked_before_its_base_and_others_in_order(t):
    asked = []

    class Base:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(cls.__name__)
            return NotImplemented

    class Derived(Base):
        pass

    class Other(Base.__bases__[0]):
        __torch_function__ = Base.__dict__["__torch_function__"]

    with pytest.raises(TypeError, match="vstack"):
        torch.vstack([Other(), Base(), Derived(), t])
    assert asked == ["Other", "Derived", "Base"]


ALONE = """
import gc
import pullback as torch

class Duck:
    __torch_function__ = classmethod(lambda cls, func, types, args=(), kwargs=None: "taken")

t = torch.ones(2)
torch.mul(t, t)
before = torch.mul.__code__
assert torch.mul(t, Duck()) == "taken"
assert torch.mul.__code__ is not before
del Duck
gc.collect()
assert torch.mul.__code__ is before
"""


def test_functions_do_not_ask_any_more_when_the_class_is_gone():
    subprocess.run([sys.executable, "-c", ALONE], check=True)


def test_signature_of_a_function_that_asks_is_its_own():
    assert list(inspect.signature(torch.linalg.cholesky).parameters) == ["input", "upper", "out"]


def _added(first, second=1):
    return first + second


def test_a_function_that_asks_already_is_guarded_by_its_own_parameters(seen):
    """As one that is made public while somebody wants functions to ask."""
    d = duck(seen)
    watched = intercept.Watched(lambda: [_added])
    watched.begin("somebody")
    intercept.always([_added])
    watched.end("somebody")
    assert _added(2) == 3
    assert _added(d, second=1) == "taken"
    assert seen[0][1:] == ((d,), {})


def test_frames_of_functions_that_ask_can_be_looked_at():
    """A debugger reads `f_locals`; free variables without cells would bring Python down."""

    class Refusing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise RuntimeError("looked at")

    x = torch.ones(2).as_subclass(Refusing)
    for call in (lambda: 2 / x, lambda: 2**x, lambda: x.flatten(), lambda: 2 // x):
        with pytest.raises(RuntimeError, match="looked at") as error:
            call()
        frames = error.traceback
        assert any("function" in entry.frame.f_locals or entry.frame.f_locals for entry in frames)
        assert all(isinstance(entry.frame.f_locals, Mapping) for entry in frames)


def _first_sample(name):
    for dtype in (torch.float32, torch.float64, torch.int64, torch.bool):
        try:
            for sample in samples_for(name, dtype):
                return sample
        except TypeError:  # not of this dtype
            continue
    return None


# Methods need a tensor before the dot; torch's masked functions are plain Python, and ask nobody.
ASKED = [name for name in SAMPLES if not name.startswith(("Tensor.", "masked."))]


@pytest.mark.parametrize("name", ASKED)
def test_each_argument_of_each_function_is_asked_the_first_time_and_later(name):
    sample, function = _first_sample(name), resolve(torch, name)
    if sample is None:
        pytest.skip("no samples")
    arguments = (sample.input, *sample.args)
    for place, given in enumerate(arguments):
        if not isinstance(given, torch.Tensor):
            continue
        seen = []
        d = duck(seen)
        changed = (*arguments[:place], d, *arguments[place + 1 :])
        for _ in range(2):
            assert function(*changed, **sample.kwargs) == "taken"
        assert len(seen) == 2


def test_who_asks_may_change_while_a_call_walks_over_them():
    layer = intercept._layer(torch.sin)
    walk = iter(layer.users)  # as a call in another thread does
    before = list(layer.users)
    try:
        layer.use("somebody", wanted=True)
        layer.use("another", wanted=True)
        assert list(walk) == before
    finally:
        layer.use("another", wanted=False)
        layer.use("somebody", wanted=False)


def test_functions_are_found_while_other_threads_load_more():
    class Loading(dict):
        def get(self, name):
            self[f"{name}_more"] = None
            return super().get(name)

    found = asking._functions(Loading(sin=torch.sin), None)
    assert list(found) == [torch.sin]
