"""Optimizers on a device: the host's steps, and steps that a graph can replay."""

import pytest

import pullback as torch
from tests.cuda import stand_in

pytestmark = pytest.mark.usefixtures("library")
CAPTURABLE = {
    "Adam": [{}, {"amsgrad": True, "weight_decay": 0.1}],
    "AdamW": [{}, {"maximize": True}],
    "NAdam": [{}],
    "RAdam": [{}, {"betas": (0.5, 0.6)}],
    "Adamax": [{}],
    "ASGD": [{"t0": 2, "lambd": 0.1}],
    "Rprop": [{}],
    "RMSprop": [{"centered": True, "momentum": 0.9}],
    "Adadelta": [{}],
}
CASES = [(name, options) for name, several in CAPTURABLE.items() for options in several]


def trained(name, options, device, steps=8):
    torch.manual_seed(0)
    start = torch.randn(5, 3, dtype=torch.float64)
    p = start.to(device).requires_grad_()
    optimizer = getattr(torch.optim, name)([p], lr=0.05, **options)
    for _ in range(steps):
        optimizer.zero_grad()
        ((p * p).sum() + p.sin().sum()).backward()
        optimizer.step()
    return p.detach().cpu(), optimizer


@pytest.mark.parametrize(("name", "options"), [*CASES, ("SGD", {"momentum": 0.9})])
def test_steps_are_those_of_the_host(name, options):
    assert torch.allclose(trained(name, options, "cuda")[0], trained(name, options, "cpu")[0])


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_capturable_step_is_the_plain_one(name, options):
    found, optimizer = trained(name, {**options, "capturable": True}, "cuda")
    assert torch.allclose(found, trained(name, options, "cpu")[0])
    (state,) = optimizer.state.values()
    assert state["step"].is_cuda
    assert state["step"].item() == 8


def told(step):
    """The numbers that the host hands to the device in a step, and how often it looks."""
    numbers, own = [], stand_in.ufunc.__call__

    def call(self, *args, **kwargs):
        numbers.extend((self.__name__, one) for one in args if isinstance(one, int | float))
        return own(self, *args, **kwargs)

    before = stand_in.transfers["to host"]
    stand_in.ufunc.__call__ = call
    try:
        step()
    finally:
        stand_in.ufunc.__call__ = own
    return numbers, stand_in.transfers["to host"] - before


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_capturable_step_says_the_same_every_time(library, name, options):
    """What a captured graph replays: numbers of the host that change would be frozen in it."""
    if library.cupy is not stand_in.module:
        pytest.skip("the stand-in tells what the host says; test_graphs replays")
    p = torch.randn(5, 3, device="cuda", requires_grad=True)
    optimizer = getattr(torch.optim, name)([p], lr=0.05, capturable=True, **options)
    for _ in range(2):
        p.grad = torch.ones_like(p)
        optimizer.step()
    heard = []
    for _ in range(2):
        said, looks = told(optimizer.step)
        heard.append(said)
        assert looks == 0
    assert heard[0]
    assert heard[0] == heard[1]


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_a_state_is_loaded_to_the_device(device):
    _, one = trained("Adam", {"capturable": device == "cuda"}, device, steps=3)
    p = torch.zeros(5, 3, dtype=torch.float64, device="cuda", requires_grad=True)
    other = torch.optim.Adam([p], lr=0.05, capturable=True)
    saved = one.state_dict()
    saved["param_groups"][0]["capturable"] = True
    other.load_state_dict(saved)
    (state,) = other.state.values()
    assert state["step"].is_cuda
    assert state["exp_avg"].is_cuda
    p.grad = torch.ones_like(p)
    other.step()
    assert state["step"].item() == 4
