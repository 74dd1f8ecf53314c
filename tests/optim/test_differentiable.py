"""Steps that autograd records: gradients of options, states and gradients are those of numbers."""

import pytest

import pullback as torch
from pullback.autograd.gradcheck import gradcheck

# Options that are numbers, by optimizer; then flags that choose another way.
OPTIONS = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.3},
    "Adam": {"lr": 0.1, "weight_decay": 0.3, "eps": 1e-2},
    "AdamW": {"lr": 0.1, "weight_decay": 0.3, "eps": 1e-2},
    "NAdam": {"lr": 0.1, "weight_decay": 0.3, "eps": 1e-2, "momentum_decay": 0.1},
    "RAdam": {"lr": 0.1, "weight_decay": 0.3, "eps": 1e-2},
    "Adamax": {"lr": 0.1, "weight_decay": 0.3, "eps": 1e-2},
    "Adadelta": {"lr": 0.1, "weight_decay": 0.3, "eps": 1e-2, "rho": 0.9},
    "Adagrad": {"lr": 0.1, "weight_decay": 0.3, "eps": 1e-2, "lr_decay": 0.05},
    "ASGD": {"lr": 0.1, "weight_decay": 0.3, "lambd": 1e-2, "alpha": 0.7},
    "RMSprop": {"lr": 0.1, "weight_decay": 0.3, "eps": 1e-2, "alpha": 0.9, "momentum": 0.5},
    "Rprop": {"lr": 0.1},
}
FLAGS = [
    *((name, {}) for name in OPTIONS),
    ("SGD", {"nesterov": True, "dampening": 0}),
    ("SGD", {"maximize": True}),
    ("Adam", {"amsgrad": True}),
    ("Adam", {"decoupled_weight_decay": True}),
    ("AdamW", {"amsgrad": True}),
    ("NAdam", {"decoupled_weight_decay": True}),
    ("RAdam", {"decoupled_weight_decay": True}),
    ("RMSprop", {"centered": True}),
]
WIDE = torch.float64


def taken(name, options, value, gradient, steps=3):
    """The parameter after some steps, and the optimizer."""
    p = value.clone()
    optimizer = getattr(torch.optim, name)([p], differentiable=True, **options)
    for number in range(steps):
        p.grad = gradient * (1 + 0.5 * number)
        optimizer.step()
    return p, optimizer


@pytest.mark.parametrize(("name", "flags"), FLAGS)
def test_gradients_reach_every_option_the_parameter_and_its_gradient(name, flags):
    options = {**OPTIONS[name], **flags}
    chosen = [key for key in OPTIONS[name] if key not in flags]
    leaves = [torch.tensor(options[key], dtype=WIDE, requires_grad=True) for key in chosen]
    value = torch.tensor([1.0, 2.0], dtype=WIDE, requires_grad=True)
    gradient = torch.tensor([0.5, -0.25], dtype=WIDE, requires_grad=True)

    def run(value, gradient, *numbers):
        return taken(name, {**options, **dict(zip(chosen, numbers, strict=True))}, value, gradient)[
            0
        ]

    assert gradcheck(run, (value, gradient, *leaves), atol=1e-4)


STATES = [
    ("SGD", {"momentum": 0.9}, {}),
    ("Adam", {"amsgrad": True}, {"max_exp_avg_sq": [0.25, 0.1]}),
    ("NAdam", {}, {}),
    *((name, {}, {}) for name in ("RAdam", "Adamax", "Adadelta", "Adagrad", "ASGD")),
    ("RMSprop", {"centered": True, "momentum": 0.9}, {}),
]


@pytest.mark.parametrize(("name", "options", "states"), STATES)
def test_gradients_reach_every_tensor_of_the_state(name, options, states):
    value = torch.tensor([1.0, 2.0], dtype=WIDE)
    gradient = torch.tensor([0.5, 0.25], dtype=WIDE)
    _, before = taken(name, options, value, gradient)
    (known,) = before.state.values()
    numbers = {key: one.detach().to(WIDE) + 0.1 for key, one in known.items() if key != "step"}
    numbers.update({key: torch.tensor(one, dtype=WIDE) for key, one in states.items()})
    leaves = [one.requires_grad_() for one in numbers.values()]

    def run(*leaves):
        p = value.clone()
        optimizer = getattr(torch.optim, name)([p], differentiable=True, **options)
        optimizer.state[p].update(
            {key: one.clone() for key, one in zip(numbers, leaves, strict=True)},
            step=torch.tensor(10.0),
        )
        p.grad = gradient.clone()
        optimizer.step()
        after = [one for key, one in optimizer.state[p].items() if key != "step"]
        return p, *(one for one in after if one.requires_grad)

    assert gradcheck(run, leaves, atol=1e-4)
