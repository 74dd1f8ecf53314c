"""What optimizers refuse, and how they differentiate: as torch's do."""

import numpy
import pytest

import pullback
from tests.differential.optim.sides import LIBRARIES, assert_same, outcome, torch

ADAMS = ["Adam", "AdamW", "NAdam", "RAdam", "Adamax"]
NAMES = ["SGD", *ADAMS, "Adadelta", "Adagrad", "RMSprop", "Rprop", "ASGD"]
ALL = [*NAMES, "LBFGS", "SparseAdam", "Adafactor", "Muon"]
OPTIONS = [
    "lr=-0.1",
    "lr=0.0",
    "lr=torch.tensor([0.1, 0.2])",
    "lr=torch.tensor(0.1), foreach=True",
    "lr=torch.tensor([0.1])",
    "eps=-1.0",
    "eps=0.0",
    "weight_decay=-1.0",
    "betas=(1.0, 0.9)",
    "betas=(0.9, -0.1)",
    "betas=(torch.tensor(0.9), 0.99)",
    "betas=(torch.tensor(0.9), torch.tensor(0.99)), foreach=True",
    "betas=(torch.tensor(0.9), torch.tensor(0.99))",
    "momentum=-0.5",
    "momentum=0.5",
    "rho=1.5",
    "alpha=-1.0",
    "lr_decay=-1.0",
    "initial_accumulator_value=-1.0",
    "momentum_decay=-1.0",
    "etas=(1.5, 1.2)",
    "etas=(0.5, 0.9)",
    "nesterov=True, momentum=0.0",
    "nesterov=True, momentum=0.5, dampening=0.1",
    "d=0.5",
    "beta2_decay=0.5",
    "adjust_lr_fn='x'",
    "ns_steps=200",
    "ns_coefficients=(1.0, 2.0)",
    "fused=True",
    "fused=True, foreach=True",
    "fused=True, differentiable=True",
    "foreach=True, differentiable=True",
    "differentiable=True",
    "capturable=True",
    "capturable=True, foreach=True",
    "maximize=True",
    "no_such_option=1",
]


# torch documents tensors as betas of two, and fails at others somewhere inside.
CHECKED = [
    (name, options)
    for name in ALL
    for options in OPTIONS
    if not options.startswith("betas=(torch.tensor(0.9), torch") or name in ("Adam", "AdamW")
]


@pytest.mark.parametrize(("name", "options"), CHECKED)
def test_options_are_taken_or_refused_as_torch_does(name, options):
    def program(library):
        p = library.ones(2, 2, requires_grad=True)
        optimizer = eval(f"torch.optim.{name}([p], {options})", {"torch": library, "p": p})
        p.grad = library.ones(2, 2)
        optimizer.step()
        return "stepped"

    assert outcome(pullback, program) == outcome(torch, program)


PARAMETERS = [
    "[]",
    "torch.ones(2)",
    "[1]",
    "5",
    "[x * 1]",
    "[torch.ones(2)]",
    "[{'lr': 1.0}]",
    "[{'params': {x}}]",
    "[{'params': 'ab'}]",
    "[('a', x), y]",
    "[('a', x), ('b', y)]",
    "[{'params': [('a', x)]}, {'params': [y]}]",
    "[{'params': [x]}, {'params': [x]}]",
    "{'a': x}.values()",
    "iter([x])",
    "(p for p in (x, y))",
    "[{'params': x, 'lr': 3.0}]",
]


@pytest.mark.parametrize("given", PARAMETERS)
def test_parameters_are_taken_or_refused_as_torch_does(given):
    def program(library):
        x, y = (library.ones(2, requires_grad=True) for _ in range(2))
        optimizer = library.optim.SGD(eval(given, {"torch": library, "x": x, "y": y}))
        return [
            {k: (len(v) if k == "params" else v) for k, v in group.items()}
            for group in optimizer.param_groups
        ]

    assert outcome(pullback, program) == outcome(torch, program)


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_a_parameter_given_twice_is_stepped_twice_after_a_warning(name):
    ends = []
    for library in LIBRARIES:
        p = library.ones(3, requires_grad=True)
        with pytest.warns(UserWarning, match="parameter"):
            optimizer = getattr(library.optim, name)([p, p], lr=0.1)
        p.grad = library.ones(3)
        for _ in range(3):
            optimizer.step()
        ends.append(p)
    assert_same(ends[0], ends[1], 1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_flow_through_differentiable_steps(name):
    """By the start, the gradients and, where it can be a tensor, the learning rate."""
    ends = []
    random = numpy.random.default_rng(0)
    start, *arrays = [random.standard_normal(5) for _ in range(4)]
    for library in LIBRARIES:
        x = library.tensor(start, requires_grad=True)
        gradients = [library.tensor(array, requires_grad=True) for array in arrays]
        p = x.clone()
        optimizer = getattr(library.optim, name)([p], lr=0.1, differentiable=True)
        # torch's own overwrite what backward needs of an earlier step.
        for g in gradients[:1] if name in ("Adamax", "Rprop") else gradients:
            p.grad = g
            optimizer.step()
        found = library.autograd.grad((p * p).sum(), [x, *gradients], allow_unused=True)
        ends.append([p, *(library.zeros(5) if g is None else g for g in found)])
    assert [bool(g.any()) for g in ends[0]] == [bool(g.any()) for g in ends[1]]
    for ours, theirs in zip(*ends, strict=True):
        numpy.testing.assert_allclose(
            ours.detach().numpy(), theirs.detach().numpy(), rtol=2e-5, atol=1e-6
        )


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RAdam"])
def test_gradients_flow_to_the_learning_rate(name):
    ends = []
    for library in LIBRARIES:
        lr = library.tensor(0.1, dtype=library.float64, requires_grad=True)
        x = library.tensor([1.0, -2.0, 3.0], dtype=library.float64, requires_grad=True)
        p = x.clone()
        optimizer = getattr(library.optim, name)([p], lr=lr, differentiable=True)
        for _ in range(2):
            p.grad = library.tensor([0.5, 1.0, -1.5], dtype=library.float64)
            optimizer.step()
        ends.append(library.autograd.grad((p * p).sum(), lr)[0].item())
    assert ends[0] == pytest.approx(ends[1], rel=1e-5)


# What each list of state holds at the start, in the order of the arguments.
STARTS = {
    "none": lambda lib, p: None,
    "zeros": lambda lib, p: lib.zeros_like(p),
    "tenths": lambda lib, p: lib.full_like(p, 0.1),
    "zero": lambda lib, p: lib.tensor(0.0),
    "one": lambda lib, p: lib.tensor(1.0),
    "tenth": lambda lib, p: lib.tensor(0.1),
}
RATES = {"lr": 0.1, "weight_decay": 0.01}
BETAS = {"beta1": 0.8, "beta2": 0.9, "eps": 1e-3, **RATES}
ADAM_LISTS = ("zeros", "zeros", "", "zero")
FUNCTIONAL = {
    "sgd": (("none",), {"momentum": 0.9, "dampening": 0.1, "nesterov": False, **RATES}),
    "adam": (ADAM_LISTS, {"amsgrad": False, **BETAS}),
    "adamw": (ADAM_LISTS, {"amsgrad": False, **BETAS}),
    "nadam": (("zeros", "zeros", "one", "zero"), {"momentum_decay": 0.004, **BETAS}),
    "radam": (("zeros", "zeros", "zero"), BETAS),
    "adamax": (("zeros", "zeros", "zero"), BETAS),
    "adadelta": (("zeros", "zeros", "zero"), {"rho": 0.9, "eps": 1e-3, **RATES}),
    "adagrad": (("tenths", "zero"), {"lr_decay": 0.1, "eps": 1e-3, **RATES}),
    "rmsprop": (
        ("zeros", "zeros", "zeros", "zero"),
        {"alpha": 0.9, "momentum": 0.5, "centered": True, "eps": 1e-1, **RATES},
    ),
    "rprop": (
        ("zeros", "tenths", "zero"),
        {"step_size_min": 1e-3, "step_size_max": 1.0, "etaminus": 0.5, "etaplus": 1.5},
    ),
    "asgd": (
        ("zeros", "one", "tenth", "zero"),
        {"lambd": 0.1, "t0": 1.0, "alpha": 0.7, **RATES},
    ),
}


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("name", FUNCTIONAL)
def test_functional_forms_step_lists_in_place(name, maximize):
    lists, options = FUNCTIONAL[name]
    ends = []
    for library in LIBRARIES:
        step = getattr(library.optim._functional, name)
        params = [library.ones(3, dtype=library.float64), library.full((2, 2), 2.0)]
        grads = [p * 0.5 for p in params]
        states = [[STARTS[how](library, p) for p in params if how] for how in lists]
        for _ in range(3):
            step(params, grads, *states, maximize=maximize, **options)
        ends.append((params, states))
    assert_same(ends[0], ends[1], 1e-6)


def test_lbfgs_walks_torchs_way():
    random = numpy.random.default_rng(1)
    matrix = random.standard_normal((17, 17))
    for options in (
        {"lr": 0.1},
        {"lr": 0.05, "history_size": 3, "max_iter": 8},
        {"line_search_fn": "strong_wolfe"},
        {"line_search_fn": "strong_wolfe", "lr": 40.0, "max_iter": 6},
        {"line_search_fn": "strong_wolfe", "lr": 0.01, "max_iter": 3, "max_eval": 9},
        {"lr": 0.1, "max_iter": 1},
    ):
        ours, theirs = (lbfgs_run(library, matrix, options) for library in LIBRARIES)
        assert_same(ours, theirs, 1e-6)


def lbfgs_run(library, matrix, options):
    random = numpy.random.default_rng(2)
    params = [library.tensor(random.standard_normal(s), requires_grad=True) for s in ((3, 4), (5,))]
    a = library.tensor(matrix)
    optimizer = library.optim.LBFGS(params, **options)

    def closure():
        optimizer.zero_grad()
        v = library.cat([p.reshape(-1) for p in params])
        loss = (a @ v).cos().sum() + (v**4).sum() + 0.03 * ((a @ v) ** 2).sum()
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(3)]
    state = optimizer.state[params[0]]
    return losses, params, [state["n_iter"], state["func_evals"], float(state["t"])]


def test_lbfgs_sees_complex_parameters_as_pairs():
    ends = []
    for library in LIBRARIES:
        z = library.tensor([1.0 + 2.0j, -0.5j], dtype=library.complex128, requires_grad=True)
        unused = library.ones(2, dtype=library.float64, requires_grad=True)
        optimizer = library.optim.LBFGS([z, unused], line_search_fn="strong_wolfe")

        def closure(z=z, optimizer=optimizer):
            optimizer.zero_grad()
            loss = ((z - 1) * (z - 1).conj()).real.sum() + (z.imag**4).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        ends.append([z, unused])
    assert_same(ends[0], ends[1], 1e-8)
