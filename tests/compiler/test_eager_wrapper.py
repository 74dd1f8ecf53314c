"""`torch.compile` gives what computes the same, and says once that nothing is compiled."""

import copy
import logging
import pickle

import pytest

import pullback as torch
from pullback import nn
from pullback.compiler import eager_wrapper

X = torch.ones(2)


@pytest.fixture(autouse=True)
def quiet():
    log = logging.getLogger("pullback.compiler")
    before = log.level
    log.setLevel(logging.ERROR)
    yield
    log.setLevel(before)


def double(x):
    """Twice."""
    return x * 2


def test_functions_and_decorators_compute_the_same():
    for made in (
        torch.compile(double),
        torch.compile(mode="max-autotune", dynamic=True)(double),
        torch.compile(double, backend="eager", fullgraph=True),
        torch.compile(double, backend=lambda gm, inputs: gm),
    ):
        assert made(X).tolist() == [2, 2]
        assert made.__name__ == "double"
        assert made.__doc__ == "Twice."
    assert torch.compile(double, disable=True) is double


def test_it_is_said_once(caplog):
    eager_wrapper._say_once.cache_clear()
    logging.getLogger("pullback.compiler").setLevel(logging.WARNING)
    made = torch.compile(double)
    assert not caplog.records
    made(X)
    made(X)
    torch.compile(nn.Linear(1, 1))
    assert len(caplog.records) == 1


def test_module_is_around_the_other_and_shows_its_attributes():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    made = torch.compile(model)
    assert isinstance(made, torch._dynamo.OptimizedModule)
    assert isinstance(made, torch._dynamo.eval_frame.OptimizedModule)
    assert torch.equal(made(X), model(X))
    assert list(made.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    assert made._orig_mod is model
    assert made[0] is model[0]
    assert len(made) == 2
    made.note = 3
    assert model.note == 3
    made.eval()
    assert not model.training
    made(X).sum().backward()
    assert model[0].weight.grad is not None
    other = copy.deepcopy(made)
    assert other._orig_mod is not model
    assert torch.equal(pickle.loads(pickle.dumps(other))(X), made(X))


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"mode": "x"}, RuntimeError),
        ({"mode": "default", "options": {}}, RuntimeError),
        ({"backend": "nope"}, RuntimeError),
    ],
)
def test_what_torch_refuses_is_refused(options, kind):
    with pytest.raises(kind):
        torch.compile(double, **options)(X)
    with pytest.raises(AssertionError):
        torch.compile(3)
