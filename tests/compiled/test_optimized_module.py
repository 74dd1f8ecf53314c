"""What `torch.compile` gives: functions and modules that compute the same."""

import copy
import pickle

import pytest

import pullback as torch
from pullback import nn

X = torch.ones(2)


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


def test_back_ends_of_users_get_a_graph_that_runs():
    seen = []

    def backend(module, examples):
        seen.append((module.code, [tuple(one.shape) for one in examples]))
        return module

    x = torch.ones(2, requires_grad=True)
    y = torch.compile(lambda x: (x.sin() * 2).sum(), backend=backend)(x)
    y.backward()
    assert torch.allclose(x.grad, 2 * torch.ones(2).cos())
    assert "sin" in seen[0][0]
    with pytest.raises(RuntimeError, match="has to return"):
        torch.compile(double, backend=lambda gm, inputs: 3, fullgraph=True)(X)


def test_back_ends_are_registered_by_name():
    torch._dynamo.register_backend(lambda gm, inputs: gm, "mine")
    assert "mine" in torch.compiler.list_backends()
    assert torch.compile(double, backend="mine")(X).tolist() == [2, 2]


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


def test_a_hook_of_all_modules_is_called_once_for_a_compiled_one():
    layer = nn.Linear(2, 1, bias=False)
    nn.init.ones_(layer.weight)
    compiled = torch.compile(layer, backend="python")
    assert compiled(X).item() == 2
    hook = nn.modules.module.register_module_forward_hook(lambda module, args, out: out * 2)
    try:
        assert compiled(X).item() == layer(X).item() == 4
    finally:
        hook.remove()
    with compiled.register_forward_hook(lambda module, args, out: out * 3):  # of the outer one
        assert compiled(X).item() == 6
    assert compiled(X).item() == 2
