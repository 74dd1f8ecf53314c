"""Modules that keep no activations: same numbers, same state dict, wrapped once."""

import pytest

import pullback as torch
from pullback.distributed.algorithms._checkpoint import checkpoint_wrapper as wrapping

nn = torch.nn


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Tanh(), nn.Linear(4, 2)))


@pytest.mark.parametrize("impl", wrapping.CheckpointImpl)
def test_gradients_and_files_are_those_of_the_plain_model(impl):
    plain, wrapped = model(), model()
    wrapping.apply_activation_checkpointing(
        wrapped,
        lambda module: wrapping.checkpoint_wrapper(module, impl),
        lambda module: isinstance(module, nn.Linear),
    )
    assert isinstance(wrapped[0], wrapping.CheckpointWrapper)
    assert isinstance(wrapped[1][1], wrapping.CheckpointWrapper)
    assert not isinstance(wrapped[1], wrapping.CheckpointWrapper)
    x = torch.rand(5, 3, requires_grad=True)
    for one in (plain, wrapped):
        one(x).sum().backward()
    for a, b in zip(plain.parameters(), wrapped.parameters(), strict=True):
        assert torch.equal(a.grad, b.grad)
    assert list(wrapped.state_dict()) == list(plain.state_dict())
    wrapped.load_state_dict({key: one + 1 for key, one in plain.state_dict().items()})
    assert torch.equal(wrapped[0].weight, plain[0].weight + 1)
    plain.load_state_dict(wrapped.state_dict())


def test_backward_computes_once_more_what_is_inside():
    calls = []
    layer = nn.Linear(2, 2)
    layer.register_forward_pre_hook(lambda *given: calls.append(1))
    wrapping.checkpoint_wrapper(layer)(torch.ones(1, 2)).sum().backward()
    assert len(calls) == 2


def test_the_wrapper_looks_like_what_it_wraps():
    wrapped = wrapping.checkpoint_wrapper(model())
    assert wrapped[0].in_features == 3
    assert next(name for name, _ in wrapped.named_parameters()) == "0.weight"
    with pytest.raises(AttributeError, match="missing"):
        _ = wrapped.missing
    assert wrapping.checkpoint_wrapper(nn.Linear(2, 3)).out_features == 3


def test_arguments_by_name_pass_in_both_ways():
    class Scaled(nn.Module):
        def forward(self, x, scale=1):
            return x * scale

    for impl in wrapping.CheckpointImpl:
        x = torch.ones(2, requires_grad=True)
        wrapping.checkpoint_wrapper(Scaled(), impl)(x, scale=3).sum().backward()
        assert x.grad.tolist() == [3, 3]


def test_a_module_in_two_places_is_wrapped_once():
    shared = nn.Linear(2, 2)
    net = nn.Sequential(nn.Sequential(shared), nn.Sequential(shared))
    wrapping.apply_activation_checkpointing(net, check_fn=lambda one: one is shared)
    assert net[0][0] is net[1][0]


def test_a_policy_of_sizes_says_what_is_wrapped():
    net = model()
    wrapping.apply_activation_checkpointing(
        net, auto_wrap_policy=lambda module, recurse, count: count > 12
    )
    assert isinstance(net[0], wrapping.CheckpointWrapper)
    assert not isinstance(net[1], wrapping.CheckpointWrapper)


def test_activations_may_be_kept_on_the_host():
    x = torch.ones(1, 2, requires_grad=True)
    wrapping.offload_wrapper(nn.Linear(2, 2))(x).sum().backward()
    assert x.grad is not None
