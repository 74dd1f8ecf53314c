"""Every optimizer next to torch's, over ten steps: parameters, state, options, repr."""

import pytest

import pullback
from tests.differential.optim.sides import (
    BOUNDS,
    LIBRARIES,
    SHAPES,
    assert_same,
    give_gradients,
    parameters,
    torch,
)

DECAYS = ({"weight_decay": 0.1}, {"weight_decay": 0.1, "maximize": True})
ADAMS = (
    {},
    {"betas": (0.5, 0.7), "eps": 1e-3, "lr": 0.1},
    {"lr": 0.05, "amsgrad": True},
    {"amsgrad": True, "weight_decay": 0.2, "maximize": True, "foreach": True},
)
OPTIONS = {
    "SGD": (
        {"lr": 0.1},
        {"lr": 0.1, "momentum": 0.9},
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.3},
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1, "maximize": True},
        {"momentum": 0.5, "foreach": True},
    ),
    "Adam": (*ADAMS, *DECAYS, {"decoupled_weight_decay": True, "weight_decay": 0.3}),
    "AdamW": (*ADAMS, *DECAYS),
    "NAdam": (
        {},
        {"lr": 0.05, "momentum_decay": 0.1, "betas": (0.8, 0.9)},
        {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
        *DECAYS,
    ),
    "RAdam": (
        {},
        {"lr": 0.05, "betas": (0.8, 0.9), "eps": 1e-3},
        {"weight_decay": 0.1, "decoupled_weight_decay": True},
        *DECAYS,
    ),
    "Adamax": ({}, {"lr": 0.1, "betas": (0.5, 0.6), "eps": 1e-2}, *DECAYS),
    "Adadelta": ({}, {"lr": 0.5, "rho": 0.5, "eps": 1e-3}, *DECAYS),
    "Adagrad": (
        {},
        {"lr": 0.1, "lr_decay": 0.2, "initial_accumulator_value": 0.3, "eps": 1e-3},
        *DECAYS,
    ),
    "RMSprop": (
        {},
        {"alpha": 0.5, "eps": 1e-2, "momentum": 0.9},
        {"centered": True, "alpha": 0.7, "eps": 0.1},
        {"centered": True, "momentum": 0.5, "weight_decay": 0.1, "maximize": True},
    ),
    "Rprop": ({}, {"lr": 0.3, "etas": (0.3, 1.7), "step_sizes": (0.1, 0.5)}, {"maximize": True}),
    "ASGD": (
        {},
        {"lr": 0.1, "lambd": 0.1, "alpha": 0.5, "t0": 3},
        {"weight_decay": 0.1, "t0": 0, "maximize": True},
    ),
    "Adafactor": (
        {},
        {"lr": 0.5, "weight_decay": 0.1, "maximize": True},
        {"eps": (1e-3, 0.1), "d": 2.0, "beta2_decay": -0.5},
    ),
    "Muon": (
        {},
        {"lr": 0.1, "nesterov": False, "adjust_lr_fn": "match_rms_adamw"},
        {"ns_steps": 3, "momentum": 0.5, "weight_decay": 0.5, "adjust_lr_fn": "original"},
    ),
}
FUSED = ("SGD", "Adam", "AdamW", "Adagrad")
# The iteration in Muon is in half precision, the counters of the others in single.
SINGLE_INSIDE = ("ASGD", "Muon", "NAdam")
REAL_ONLY = ("Adafactor", "Muon")
CASES = [(name, options) for name, several in OPTIONS.items() for options in several]
MATRICES = ((3, 4), (5, 2), (4, 4))
FILLED = tuple(shape for shape in SHAPES if 0 not in shape)


def shapes_for(name):
    """Muon is for matrices; torch's Adafactor divides by zero on an empty parameter."""
    return {"Muon": {"shapes": MATRICES}, "Adafactor": {"shapes": FILLED}}.get(name, {})


def stepped(library, name, options, dtype, steps=10):
    params = parameters(library, dtype, **shapes_for(name))
    optimizer = getattr(library.optim, name)(params, **options)
    for seed in range(steps):
        give_gradients(library, params, seed)
        if seed == 5:
            optimizer.param_groups[0]["lr"] *= 0.5
        optimizer.step()
    return params, optimizer


def compare(name, options, dtype):
    ours, mine = stepped(pullback, name, options, dtype)
    theirs, other = stepped(torch, name, options, dtype)
    bound = BOUNDS[dtype]
    if name in SINGLE_INSIDE:
        bound = max(bound, 1e-6)
    assert_same(ours, theirs, bound, "parameters")
    assert_same(mine.state_dict(), other.state_dict(), max(bound, 1e-6), "state")
    assert repr(mine) == repr(other)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_ten_steps_in_double_precision_end_where_torch_does(name, options):
    compare(name, options, "float64")


@pytest.mark.parametrize(("name", "options"), CASES)
def test_ten_steps_in_single_precision_end_where_torch_does(name, options):
    compare(name, options, "float32")


@pytest.mark.parametrize(("name", "options"), [case for case in CASES if case[0] not in REAL_ONLY])
def test_complex_parameters_are_stepped_as_torch_does(name, options):
    compare(name, options, "complex128")


@pytest.mark.parametrize("name", [name for name in OPTIONS if name not in ("Muon", "Rprop")])
def test_half_precision_stays_near_torch(name):
    ours, mine = stepped(pullback, name, {"lr": 0.01}, "float16", 3)
    theirs, other = stepped(torch, name, {"lr": 0.01}, "float16", 3)
    assert_same(ours, theirs, BOUNDS["float16"])
    assert_same(mine.state_dict(), other.state_dict(), 0.05)


@pytest.mark.parametrize("name", FUSED)
def test_fused_gives_what_torch_gives(name):
    compare(name, {"lr": 0.1, "fused": True}, "float32")


@pytest.mark.parametrize("name", OPTIONS)
def test_parameters_that_have_no_gradient_for_a_while_keep_their_own_count(name):
    ends = []
    for library in LIBRARIES:
        params = parameters(library, "float64", **shapes_for(name))
        optimizer = getattr(library.optim, name)(params, lr=0.1)
        for seed, without in enumerate([(1,), (), (0, 2), (0, 2), (1,), (), (), (2,)]):
            give_gradients(library, params, seed, without=without)
            optimizer.step()
        ends.append((params, optimizer.state_dict()))
    assert_same(ends[0], ends[1], 1e-6)


@pytest.mark.parametrize("name", OPTIONS)
def test_groups_have_options_of_their_own(name):
    ends = []
    for library in LIBRARIES:
        first, *rest = parameters(library, "float64", **shapes_for(name))
        groups = [{"params": first, "lr": 0.3}, {"params": rest[:1]}]
        optimizer = getattr(library.optim, name)(groups, lr=0.01)
        optimizer.add_param_group({"params": rest[1:], "lr": 0.2})
        for seed in range(4):
            give_gradients(library, [first, *rest], seed)
            optimizer.step()
        ends.append(([first, *rest], optimizer.state_dict()))
    assert_same(ends[0], ends[1], 1e-6)


@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "Muon"])
def test_learning_rate_may_be_a_tensor(name):
    ends = []
    for library in LIBRARIES:
        params = parameters(library, "float64", **shapes_for(name))
        lr = library.tensor(0.1, dtype=library.float64)
        optimizer = getattr(library.optim, name)(params, lr=lr)
        for seed in range(3):
            give_gradients(library, params, seed)
            optimizer.step()
            lr.mul_(0.5)
        ends.append(params)
    assert_same(ends[0], ends[1], 1e-6)


@pytest.mark.parametrize("layout", ["transposed", "strided", "large", "many"])
@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "ASGD"])
def test_memory_order_and_size_do_not_matter(name, layout):
    ends = []
    for library in LIBRARIES:
        shapes = {
            "transposed": [(4, 3), (6, 2)],
            "strided": [(8, 6), (10,)],
            "large": [(300, 500), (3,), (200_000,)],
            "many": [(100, 7)] * 300,
        }[layout]
        params = parameters(library, "float64", shapes)
        if layout == "transposed":
            params = [p.detach().t().requires_grad_() for p in params]
        if layout == "strided":
            params = [p.detach()[::2].requires_grad_() for p in params]
        options = {"momentum": 0.9} if name == "SGD" else {}
        optimizer = getattr(library.optim, name)(params, lr=0.1, **options)
        for seed in range(3):
            give_gradients(library, params, seed)
            optimizer.step()
        ends.append((params, [list(optimizer.state[p].values()) for p in params]))
    assert_same(ends[0], ends[1], 1e-7)
