"""Optimizers that change libraries in the middle: state dicts go both ways, through files."""

import io

import numpy
import pytest

import pullback
from tests.differential.optim.sides import assert_same, give_gradients, parameters, torch

CASES = [
    ("SGD", {"momentum": 0.9}),
    ("SGD", {}),
    ("Adam", {"amsgrad": True}),
    ("AdamW", {}),
    ("NAdam", {}),
    ("RAdam", {}),
    ("Adamax", {}),
    ("Adadelta", {}),
    ("Adagrad", {}),
    ("RMSprop", {"centered": True, "momentum": 0.3}),
    ("Rprop", {}),
    ("ASGD", {"t0": 2}),
    ("Adafactor", {}),
    ("Muon", {}),
]
SHAPES = ((3, 4), (2, 5))


def steps(library, params, optimizer, seeds):
    for seed in seeds:
        give_gradients(library, params, seed)
        optimizer.step()


def made(library, name, options, dtype="float64"):
    params = parameters(library, dtype, SHAPES)
    return params, getattr(library.optim, name)(params, lr=0.05, **options)


def through_a_file(saver, loader, thing):
    file = io.BytesIO()
    saver.save(thing, file)
    file.seek(0)
    return loader.load(file, weights_only=True)


@pytest.mark.parametrize("direction", ["to torch", "from torch"])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_training_goes_on_in_the_other_library(name, options, direction):
    first, second = (pullback, torch) if direction == "to torch" else (torch, pullback)
    params, optimizer = made(first, name, options)
    steps(first, params, optimizer, range(4))
    state = through_a_file(first, second, optimizer.state_dict())
    values = through_a_file(first, second, [p.detach() for p in params])
    moved, other = made(second, name, options)
    with second.no_grad():
        for p, value in zip(moved, values, strict=True):
            p.copy_(value)
    other.load_state_dict(state)
    steps(second, moved, other, range(4, 8))
    optimizer.load_state_dict(optimizer.state_dict())  # which changes dtypes, here too
    steps(first, params, optimizer, range(4, 8))
    ours, theirs = (params, moved) if first is pullback else (moved, params)
    mine, its = (optimizer, other) if first is pullback else (other, optimizer)
    assert_same(ours, theirs, 1e-6)
    assert_same(mine.state_dict(), its.state_dict(), 1e-6)


def test_lbfgs_goes_on_in_the_other_library():
    def closure_of(library, x, optimizer):
        def closure():
            optimizer.zero_grad()
            loss = ((x - 1) ** 4).sum() + (x * x).sum()
            loss.backward()
            return loss

        return closure

    start = numpy.array([3.0, -2.0, 0.5])
    ends = []
    for first, second in ((pullback, torch), (torch, pullback)):
        x = first.tensor(start, requires_grad=True)
        optimizer = first.optim.LBFGS([x], lr=0.3, max_iter=4)
        optimizer.step(closure_of(first, x, optimizer))
        state = through_a_file(first, second, optimizer.state_dict())
        y = second.tensor(x.detach().numpy().copy(), requires_grad=True)
        other = second.optim.LBFGS([y], lr=0.3, max_iter=4)
        other.load_state_dict(state)
        other.step(closure_of(second, y, other))
        ends.append(y.detach().numpy())
    numpy.testing.assert_allclose(ends[0], ends[1], rtol=1e-9)


def test_loaded_tensors_take_the_parameters_dtype_and_the_step_keeps_its_own():
    ends = []
    for library in (pullback, torch):
        p = library.ones(2, dtype=library.float16, requires_grad=True)
        optimizer = library.optim.Adam([p])
        double = {"dtype": library.float64}
        state = {
            "step": library.tensor(3.0, **double),
            "exp_avg": library.ones(2, **double),
            "exp_avg_sq": library.ones(2),
            "other": [library.ones(1), {"inner": library.ones(2)}],
            "number": library.tensor(3),
        }
        groups = optimizer.state_dict()["param_groups"]
        del groups[0]["amsgrad"]
        optimizer.load_state_dict({"state": {0: state, "extra": 5}, "param_groups": groups})
        ends.append(optimizer.state_dict())
    assert_same(ends[0]["state"], ends[1]["state"], 0)
    assert ends[0]["param_groups"] == ends[1]["param_groups"]


def test_steps_that_are_numbers_become_tensors_when_loaded():
    for library in (pullback, torch):
        p = library.ones(2, requires_grad=True)
        optimizer = library.optim.Adam([p])
        p.grad = library.ones(2)
        optimizer.step()
        saved = optimizer.state_dict()
        saved["state"][0]["step"] = 5
        optimizer.load_state_dict(saved)
        assert str(optimizer.state[p]["step"]) == "tensor(5.)"


def test_names_are_kept_by_torchs_rules():
    ends = []
    for library in (pullback, torch):

        def named(name, library=library):
            return library.optim.SGD([(name, library.ones(1, requires_grad=True))])

        plain = library.optim.SGD([library.ones(1, requires_grad=True)])
        rows = []
        for target, source in (
            (named("a"), named("b")),
            (named("a"), plain),
            (plain, named("b")),
        ):
            target.load_state_dict(source.state_dict())
            rows.append([target.param_groups[0].get("param_names"), list(target.state_dict())])
        ends.append(rows)
    assert ends[0] == ends[1]
