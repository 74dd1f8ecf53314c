"""What is handed to native code of the library: nothing in which it could find state."""

import enum

import pytest
from pullback._dynamo import explain

import pullback as torch


def _trained(step_by, compiled):
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x = torch.randn(8, 4)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = net(x).square().mean()
        step_by(optimizer, loss)
        return loss.detach()

    run = torch.compile(step) if compiled else step
    return [run().item() for _ in range(4)]


def _scaled(enabled):
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0, enabled=enabled)

    def step_by(optimizer, loss):
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step_by


@pytest.mark.parametrize("enabled", [False, True])
def test_a_scaler_steps_the_optimizer_in_a_compiled_step(enabled):
    expected = _trained(_scaled(enabled), compiled=False)
    assert len(set(expected)) == 4
    assert _trained(_scaled(enabled), compiled=True) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    "made",
    [
        lambda: torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=0.1),
        lambda: torch.amp.GradScaler("cpu"),
        lambda: torch.utils.data.TensorDataset(torch.ones(2)),
    ],
)
def test_objects_of_the_library_from_outside_are_not_handed_to_native_code(made):
    thing = made()
    told = str(explain(lambda x: (torch.utils._pytree.tree_leaves(thing), x + 1)[1])(torch.ones(2)))
    assert f"an object of class {type(thing).__name__} from outside is handed to native" in told


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.contiguous(memory_format=torch.channels_last) + 1,
        lambda x: torch.zeros(4, layout=torch.strided) + x,
    ],
)
def test_formats_are_constants_of_a_program(function):
    x = torch.arange(32.0).reshape(1, 2, 4, 4)
    assert explain(function)(x).graph_count == 1
    assert torch.equal(torch.compile(function)(x), function(x))


class Ways(enum.IntFlag):
    A = 1
    B = 2


def test_the_complement_of_a_flag_is_remembered_when_the_function_asks_and_not_before():
    """The enum keeps it in the member: a hook that was captured and never ran would have."""
    vars(Ways.A).pop("_inverted_", None)

    def hooked(x):
        x = x * 1.0
        x.register_hook(lambda g: g * ~Ways.A)
        return x * 2.0

    f = torch.compile(hooked, backend="eager")
    for _ in range(3):
        x = torch.tensor([1.0], requires_grad=True)
        y = f(x)
    assert "_inverted_" not in vars(Ways.A)
    y.backward()
    assert x.grad.item() == 4
    g = torch.compile(lambda x: x * int(~Ways.B), backend="eager")
    assert [g(torch.ones(1)).item() for _ in range(3)] == [1, 1, 1]
    assert g.entries
