"""Module: registration, walking, state, moving, hooks, copies."""

import copy
import gc
import io
import pickle
import weakref
from collections import OrderedDict

import pytest

import pullback as torch
from pullback import nn
from pullback.func import (
    functional_call,
    grad,
    replace_all_batch_norm_modules_,
    stack_module_state,
    vmap,
)
from pullback.utils.checkpoint import checkpoint, checkpoint_sequential


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(4, 2))
        self.scale = nn.Parameter(torch.ones(2))
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("scratch", torch.zeros(1), persistent=False)
        self.note = "plain"

    def forward(self, x, *, shift=0):
        return self.rest(self.first(x)) * self.scale + shift


NAMES = ["scale", "first.weight", "first.bias", "rest.1.weight", "rest.1.bias"]


# Registration and walking ------------------------------------------------------------------------


def test_assigning_registers():
    net = Net()
    assert [name for name, _ in net.named_parameters()] == NAMES
    assert [name for name, _ in net.named_buffers()] == ["seen", "scratch"]
    assert [name for name, _ in net.named_children()] == ["first", "rest"]
    assert [name for name, _ in net.named_modules()] == ["", "first", "rest", "rest.0", "rest.1"]
    assert [name for name, _ in net.named_parameters("net", recurse=False)] == ["net.scale"]
    assert list(net.state_dict()) == ["scale", "seen", *NAMES[1:]]
    assert net.note == "plain"
    assert {"scale", "first", "seen"} <= set(dir(net))


def test_an_attribute_changes_its_kind_and_can_be_deleted():
    net = Net()
    net.note = nn.Parameter(torch.zeros(1))
    assert "note" in dict(net.named_parameters())
    assert "note" not in net.__dict__
    net.scale = None
    assert "scale" not in dict(net.named_parameters())
    assert net.scale is None
    net.seen = torch.ones(2)
    assert net.get_buffer("seen").tolist() == [1.0, 1.0]
    del net.first
    assert not hasattr(net, "first")
    net.extra = nn.Buffer(torch.zeros(1), persistent=False)
    assert "extra" in dict(net.named_buffers())
    assert "extra" not in net.state_dict()


def test_init_must_run_first():
    class Early(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter(torch.zeros(1))

    with pytest.raises(AttributeError, match="__init__"):
        Early()


def test_shared_parts_are_found_once():
    layer = nn.Linear(2, 2)
    net = nn.Sequential(layer, nn.ReLU(), layer)
    assert len(list(net.parameters())) == 2
    assert len(list(net.modules())) == 3
    assert len(list(net.named_parameters(remove_duplicate=False))) == 4
    assert len(list(net.children())) == 2


def test_paths_lead_to_parts():
    net = Net()
    assert net.get_submodule("rest.1") is net.rest[1]
    assert net.get_submodule("") is net
    assert net.get_parameter("rest.1.bias") is net.rest[1].bias
    assert net.get_buffer("seen") is net.seen


# State -------------------------------------------------------------------------------------------


def test_state_goes_from_one_to_another():
    a, b = Net(), Net()
    x = torch.randn(5, 3)
    assert str(b.load_state_dict(a.state_dict())) == "<All keys matched successfully>"
    assert a(x).tolist() == b(x).tolist()
    assert b.first.weight is not a.first.weight
    state = a.state_dict()
    assert not state["scale"].requires_grad
    assert state["scale"].data_ptr() == a.scale.data_ptr()
    assert a.state_dict(keep_vars=True)["scale"] is a.scale
    assert a.state_dict(prefix="x.")._metadata["x"] == {"version": 1}


def test_names_that_do_not_fit_are_told():
    net = Net()
    state = OrderedDict(net.state_dict())
    del state["scale"]
    state["more"] = torch.zeros(1)
    state["first.more"] = torch.zeros(1)
    found = net.load_state_dict(state, strict=False)
    assert found.missing_keys == ["scale"]
    assert sorted(found.unexpected_keys) == ["first.more", "more"]
    with pytest.raises(RuntimeError, match=r"missing names: 'scale'[\s\S]*unexpected names"):
        net.load_state_dict(state)


def test_assigned_state_is_taken_over():
    a, b = nn.Linear(2, 2), nn.Linear(2, 2)
    state = {name: value.double() for name, value in a.state_dict().items()}
    b.load_state_dict(state, assign=True)
    assert b.weight.dtype is torch.float64
    assert isinstance(b.weight, nn.Parameter)
    assert b.weight.data_ptr() == state["weight"].data_ptr()


def test_hooks_around_the_state():
    net, log = nn.Linear(2, 2), []
    net.register_state_dict_pre_hook(lambda m, prefix, keep: log.append("before"))
    net.register_state_dict_post_hook(lambda m, state, prefix, about: state.update(more=1))
    state = net.state_dict()
    assert log == ["before"]
    assert state.pop("more") == 1
    net.register_load_state_dict_pre_hook(
        lambda m, given, *_: given.update(weight=given.pop("old"))
    )
    net.register_load_state_dict_post_hook(lambda m, found: found.missing_keys.clear())
    state["old"] = state.pop("weight")
    del state["bias"]
    net.load_state_dict(state)


def test_extra_state():
    class Counting(nn.Module):
        count = 0

        def get_extra_state(self):
            return self.count

        def set_extra_state(self, state):
            self.count = state

    a, b = nn.Sequential(Counting()), nn.Sequential(Counting())
    a[0].count = 7
    assert a.state_dict() == {"0._extra_state": 7}
    b.load_state_dict(a.state_dict())
    assert b[0].count == 7


def test_an_old_state_of_a_batch_norm_has_no_count():
    norm = nn.BatchNorm1d(2)
    state = norm.state_dict()
    del state["num_batches_tracked"]
    with pytest.raises(RuntimeError, match="num_batches_tracked"):
        norm.load_state_dict(state)
    state._metadata[""]["version"] = 1
    norm.load_state_dict(state)


@pytest.mark.parametrize("how", ["copy", "pickle", "save"])
def test_copies_are_whole_and_apart(how):
    net = Net()
    net.first.register_forward_hook(_doubled)
    x = torch.randn(4, 3)
    if how == "copy":
        other = copy.deepcopy(net)
    elif how == "pickle":
        other = pickle.loads(pickle.dumps(net))
    else:
        buffer = io.BytesIO()
        torch.save(net.state_dict(), buffer)
        buffer.seek(0)
        other = Net()
        other.load_state_dict(torch.load(buffer))
        other.first.register_forward_hook(_doubled)
    assert other(x).tolist() == net(x).tolist()
    assert isinstance(other.scale, nn.Parameter)
    with torch.no_grad():
        other.scale.zero_()
    assert net.scale.tolist() == [1.0, 1.0]


def _doubled(module, args, output):
    return output * 2


# Changing all of it ------------------------------------------------------------------------------


def test_conversion_keeps_parameters_and_leaves_integers():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    weight = net[0].weight
    net(torch.randn(4, 2)).sum().backward()
    assert net.double() is net
    assert net[0].weight is weight
    assert weight.dtype is torch.float64
    assert weight.grad.dtype is torch.float64
    assert net[1].num_batches_tracked.dtype is torch.int64
    assert net.to(torch.float16)[1].running_mean.dtype is torch.float16
    assert net.to("cpu", torch.float32)[0].bias.dtype is torch.float32
    assert net.to(torch.zeros(1, dtype=torch.float64))[0].bias.dtype is torch.float64
    assert net.float()[0].bias.dtype is torch.float32
    net(torch.randn(4, 2)).sum().backward()


def test_modes_gradients_and_apply():
    net, seen = Net(), []
    assert net.eval() is net
    assert not net.rest[0].training
    net.train()
    assert net.rest[0].training
    net(torch.ones(1, 3)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert net.scale.grad.tolist() == [0.0, 0.0]
    net.zero_grad()
    assert net.scale.grad is None
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())
    net.apply(lambda module: seen.append(type(module).__name__))
    assert seen == ["Linear", "ReLU", "Linear", "Sequential", "Net"]


def test_training_lowers_a_loss():
    torch.manual_seed(0)
    net, loss_of = Net(), nn.MSELoss()
    x, y = torch.randn(16, 3), torch.randn(16, 2)
    losses = []
    for _ in range(30):
        net.zero_grad()
        loss = loss_of(net(x), y)
        loss.backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter -= 0.1 * parameter.grad
        losses.append(loss.item())
    assert losses[-1] < 0.95 * losses[0]


# Hooks -------------------------------------------------------------------------------------------


def test_forward_hooks_see_and_replace():
    net, log = Net(), []
    x = torch.ones(1, 3)
    plain = net(x)
    first = net.register_forward_pre_hook(lambda m, args: (args[0] * 0,))
    shift = net.register_forward_pre_hook(
        lambda m, args, kwargs: (args, {"shift": 5}), with_kwargs=True, prepend=True
    )
    after = net.register_forward_hook(
        lambda m, args, kwargs, out: log.append((args[0].sum().item(), kwargs)), with_kwargs=True
    )
    net.register_forward_hook(lambda m, args, out: out * 0 + 1)
    assert net(x).tolist() == [[1.0, 1.0]]
    assert log == [(0.0, {"shift": 5})]
    for handle in (first, shift, after):
        handle.remove()
    assert net(x).tolist() == [[1.0, 1.0]]
    assert plain.shape == (1, 2)


def test_a_hook_can_be_called_whatever_happens():
    log = []

    class Fails(nn.Module):
        def forward(self):
            raise KeyError("mine")

    net = Fails()
    net.register_forward_hook(lambda *_: log.append("skipped"))
    net.register_forward_hook(lambda *_: log.append("called"), always_call=True)
    with pytest.raises(KeyError, match="mine"):
        net()
    assert log == ["called"]


def test_full_backward_hooks():
    net, log = nn.Linear(2, 2, bias=False), []

    def hook(module, grad_input, grad_output):
        log.append((module is net, grad_output[0].tolist()))
        return (grad_input[0] * 10,)

    net.register_full_backward_hook(hook)
    net.register_full_backward_pre_hook(lambda m, g: (g[0] * 2,))
    x = torch.ones(1, 2, requires_grad=True)
    net(x).sum().backward()
    assert log == [(True, [[2.0, 2.0]])]
    assert torch.allclose(x.grad, 20 * net.weight.sum(0))
    assert net.weight.grad.tolist() == [[2.0, 2.0]] * 2
    with pytest.raises(RuntimeError, match="mixed"):
        net.register_backward_hook(hook)


@pytest.mark.filterwarnings("ignore:A backward hook of the old kind")
def test_old_backward_hooks():
    net, log = nn.ReLU(), []
    net.register_backward_hook(lambda m, grad_in, grad_out: log.append(grad_out[0].tolist()))
    net(torch.ones(2, requires_grad=True)).sum().backward()
    assert log == [[1.0, 1.0]]


def test_modules_and_their_graphs_go_without_the_collector():
    gc.collect()
    gc.disable()
    try:
        net = Net()
        net.register_forward_hook(_doubled)
        net(torch.ones(1, 3)).sum().backward()
        gone = weakref.ref(net)
        del net
        assert gone() is None
    finally:
        gc.enable()


# With the rest of the library --------------------------------------------------------------------


def test_functional_call_and_ensembles():
    """T-103 to T-107."""
    nets = [Net() for _ in range(3)]
    x = torch.randn(4, 3)
    given = {"scale": torch.zeros(2)}
    assert functional_call(nets[0], given, x, {"shift": 1}).tolist() == [[1.0, 1.0]] * 4
    assert nets[0].scale.tolist() == [1.0, 1.0]
    parameters, buffers = stack_module_state(nets)
    assert parameters["first.weight"].shape == (3, 4, 3)
    together = vmap(lambda p, b: functional_call(nets[0], (p, b), (x,)))(parameters, buffers)
    for one, net in zip(together, nets, strict=True):
        assert torch.allclose(one, net(x), atol=1e-6)
    own = dict(nets[0].named_parameters())
    g = grad(lambda p: functional_call(nets[0], p, x).sum())(own)
    nets[0](x).sum().backward()
    for name, parameter in nets[0].named_parameters():
        assert torch.allclose(g[name], parameter.grad, atol=1e-6)


def test_tied_weights_and_buffers():
    """T-105, T-106."""
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    net[1].weight = net[0].weight
    out = functional_call(net, {"0.weight": torch.eye(2) * 3}, torch.ones(1, 2))
    assert out.tolist() == [[9.0, 9.0]]
    norm = nn.BatchNorm1d(2)
    mine = {"running_mean": torch.zeros(2)}
    functional_call(norm, mine, torch.ones(4, 2))
    assert mine["running_mean"].tolist() == pytest.approx([0.1, 0.1])
    assert norm.running_mean.tolist() == [0.0, 0.0]


def test_batch_norms_can_be_mapped_once_they_track_nothing():
    """T-155."""
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    assert replace_all_batch_norm_modules_(net) is net
    assert net[1].running_mean is None
    x = torch.randn(5, 4, 2)
    out = vmap(net)(x)
    assert torch.allclose(out[1], net(x[1]), atol=1e-5)


def test_modules_are_checkpointed():
    """G-102."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Dropout(), nn.Linear(8, 8), nn.Tanh()
    )
    x = torch.randn(6, 4)
    results = []
    for run in (
        lambda: net(x),
        lambda: checkpoint(net, x, use_reentrant=False),
        lambda: checkpoint_sequential(net, 3, x, use_reentrant=False),
    ):
        torch.manual_seed(1)
        net.zero_grad()
        run().sum().backward()
        results.append([parameter.grad.tolist() for parameter in net.parameters()])
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("before", [5, None, torch.ones(1)])
def test_a_buffer_does_not_replace_a_plain_attribute(before):
    module = nn.Module()
    module.a = before
    with pytest.raises(KeyError, match="has an attribute"):
        module.a = nn.Buffer(torch.ones(1))
    assert module.a is before


def test_a_buffer_without_a_shape_is_registered():
    module = nn.Module()
    module.kept, module.scratch = nn.UninitializedBuffer(), nn.UninitializedBuffer(persistent=False)
    assert list(dict(module.named_buffers())) == ["kept", "scratch"]
    module.kept.materialize((2,))
    module.scratch.materialize((2,))
    assert isinstance(module.kept, nn.Buffer)
    assert list(module.state_dict()) == ["kept"]
    copied = copy.deepcopy(nn.UninitializedBuffer(persistent=False))
    assert not copied.persistent


class TakesCalls:
    """Not a tensor, but functions ask it."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func


def test_what_takes_the_calls_of_functions_may_be_a_buffer():
    module, one, other = torch.nn.Module(), TakesCalls(), TakesCalls()
    module.register_buffer("b", one)
    assert dict(module.named_buffers()) == {"b": one}
    module.b = other
    assert module.b is other
    with pytest.raises(TypeError, match="got int"):
        module.register_buffer("c", 3)


def test_a_class_may_register_buffers_by_a_method_of_two_arguments():

    class Own(torch.nn.Module):
        def register_buffer(self, name, value):
            super().register_buffer(name, value)

    module = Own()
    module.a = torch.nn.Buffer(torch.ones(2))
    assert list(module.state_dict()) == ["a"]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: torch.nn.Linear(2, 1), "weight"),
        (lambda: torch.nn.ParameterList([torch.ones(2)]), "0"),
        (lambda: torch.nn.ParameterDict({"a": torch.ones(2)}), "a"),
    ],
)
def test_a_replica_takes_any_tensor_in_the_place_of_a_parameter(make, name):
    module = make()
    replica = module._replicate_for_data_parallel()
    own = getattr(module, name)
    view = own.view_as(own)
    setattr(replica, name, view)
    assert getattr(replica, name) is view
    assert list(replica.parameters()) == []
    assert getattr(module, name) is own
