"""`fully_shard`: losses are those of one process, and each rank keeps its part alone."""

import copy

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed.fsdp import (
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
)
from pullback.distributed.tensor import DTensor, Replicate, Shard
from tests.distributed.fsdp.models import (
    Convolutional,
    Transformer,
    alone,
    loss_of,
    made,
    own_rows,
    sharded,
)


@pytest.mark.parametrize("kind", [Transformer, Convolutional])
@pytest.mark.parametrize("ranks", [2, 4])
def test_ten_steps_give_one_processs_losses(kind, ranks):
    wanted = alone(kind)
    for found in dist.threads.run(sharded, ranks, kind):
        assert found == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("keeps", [True, False])
def test_far_ranks_gather_ahead_and_find_the_same(keeps):
    def one():
        return sharded(Transformer, clip=0.5, reshard_after_forward=keeps)

    wanted = alone(Transformer, clip=0.5)
    for found in dist.threads.run(one, 2, far=True):
        assert found == pytest.approx(wanted, abs=1e-6)


def test_a_mesh_of_two_dimensions_shards_and_replicates():
    def one():
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
        return sharded(Transformer, mesh=mesh)

    wanted = alone(Transformer)
    for found in dist.threads.run(one, 4):
        assert found == pytest.approx(wanted, abs=1e-6)


class TwoLayers(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 3))


def two_layers():
    return made(TwoLayers)


def shard(model, *parts, **options):
    for part in (*parts, model):
        fully_shard(part, **options)
    return model


def whole_gradients(model):
    return [p.grad.full_tensor() for p in model.parameters()]


def test_parameters_are_parts_outside_of_forward_and_wholes_inside():
    def one():
        model = two_layers()
        seen = []
        model[0].register_forward_hook(lambda m, *_: seen.append(type(m.weight).__name__))
        shard(model, model[0])
        assert isinstance(model, FSDPModule)
        assert isinstance(model, torch.nn.Sequential)
        assert type(model).__name__ == "FSDPTwoLayers"
        weight = model[0].weight
        assert isinstance(weight, DTensor)
        assert isinstance(weight, torch.nn.Parameter)
        assert weight.placements == (Shard(0),)
        assert list(weight.shape) == [6, 4]
        model(torch.ones(1, 4)).sum().backward()
        assert seen == ["Parameter"]
        assert model[0].weight is weight
        assert isinstance(weight.grad, DTensor)
        return list(weight.to_local().shape), list(model[2].bias.to_local().shape)

    assert dist.threads.run(one, 4) == [
        ([2, 4], [1]),
        ([2, 4], [1]),
        ([2, 4], [1]),
        ([0, 4], [0]),
    ]


def test_ranks_begin_with_the_first_ranks_values():
    def one():
        model = fully_shard(made(lambda: torch.nn.Linear(3, 3), seed=dist.get_rank()))
        return model.weight.full_tensor().tolist()

    found = dist.threads.run(one, 2)
    assert found[0] == found[1]


def test_gradients_accumulate_whole_without_synchronization():
    plain = two_layers()
    for step in range(3):
        plain(torch.full((1, 4), step + 1.0)).square().sum().backward()

    def one():
        model = two_layers()
        shard(model, model[0])
        model.set_requires_gradient_sync(False)
        for step in range(2):
            model(torch.full((1, 4), step + 1.0)).square().sum().backward()
            assert all(p.grad is None for p in model.parameters())
        model.set_requires_gradient_sync(True)
        model(torch.full((1, 4), 3.0)).square().sum().backward()
        return whole_gradients(model)

    for gradients in dist.threads.run(one, 2):
        for got, p in zip(gradients, plain.parameters(), strict=True):
            torch.testing.assert_close(got, p.grad)


def test_gradients_of_several_passes_add_up():
    plain = two_layers()
    for _ in range(2):
        plain(torch.ones(1, 4)).square().sum().backward()

    def one():
        model = shard(two_layers())
        for _ in range(2):
            model(torch.ones(1, 4)).square().sum().backward()
        return whole_gradients(model)

    for got, p in zip(dist.threads.run(one, 2)[1], plain.parameters(), strict=True):
        torch.testing.assert_close(got, p.grad)


def test_replicas_may_be_reduced_in_a_later_pass():
    plain = two_layers()
    for _ in range(2):
        plain(torch.ones(1, 4)).square().sum().backward()

    def one():
        mesh = dist.init_device_mesh("cpu", (2, 1))
        model = shard(two_layers(), mesh=mesh)
        assert model[0].weight.placements == (Replicate(), Shard(0))
        model.set_requires_all_reduce(False)
        model(torch.ones(1, 4)).square().sum().backward()
        assert model[0].weight.grad is None
        model.set_requires_all_reduce(True)
        model(torch.ones(1, 4)).square().sum().backward()
        return whole_gradients(model)

    for got, p in zip(dist.threads.run(one, 2)[0], plain.parameters(), strict=True):
        torch.testing.assert_close(got, p.grad)


@pytest.mark.parametrize("name", ["set_gradient_divide_factor", "set_reduce_scatter_divide_factor"])
def test_gradients_are_divided_by_a_factor_of_ones_own(name):
    def one():
        model = fully_shard(torch.nn.Linear(2, 1, bias=False))
        getattr(model, name)(1.0)
        model.set_unshard_in_backward(False)
        model.set_force_sum_reduction_for_comms(True)
        model(torch.tensor([[1.0, dist.get_rank()]])).sum().backward()
        return model.weight.grad.full_tensor().tolist()

    assert dist.threads.run(one, 2)[0] == [[2.0, 1.0]]


def test_frozen_and_unused_parameters_shared_ones_and_several_calls():
    def build():
        model = torch.nn.ModuleDict(
            {"a": torch.nn.Linear(4, 4), "b": torch.nn.Linear(4, 4), "c": torch.nn.Linear(4, 4)}
        )
        model["c"].weight = model["a"].weight
        model["b"].weight.requires_grad_(False)
        model["unused"] = torch.nn.Linear(2, 2)
        return model

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = build()

        def forward(self, x):
            inner = self.inner
            return inner["c"](inner["b"](inner["a"](x)).tanh()) + inner["a"](x)

    plain = made(Net)
    x = torch.linspace(-1, 1, 8).reshape(2, 4)
    plain(x).square().mean().backward()

    def one():
        model = made(Net)
        shard(model, model.inner["b"])
        assert model.inner["a"].weight is model.inner["c"].weight
        mine = x[dist.get_rank() : dist.get_rank() + 1].clone().requires_grad_()
        model(mine).square().mean().backward()
        assert model.inner["b"].weight.grad is None
        assert model.inner["unused"].weight.grad is None
        return {
            name: p.grad.full_tensor() for name, p in model.named_parameters() if p.grad is not None
        }

    found = dist.threads.run(one, 2)[0]
    wanted = {name: p.grad for name, p in plain.named_parameters() if p.grad is not None}
    assert found.keys() == wanted.keys()
    for name, got in found.items():
        torch.testing.assert_close(got, wanted[name])


def test_checkpoints_compute_again_inside_and_outside():
    from pullback.utils.checkpoint import checkpoint

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = TwoLayers(), TwoLayers()
            self.second[0] = torch.nn.Linear(3, 6)

        def forward(self, x):
            x = checkpoint(self.first, x, use_reentrant=False)
            return checkpoint(self.second, x, use_reentrant=False)

    plain = made(Net)
    plain(torch.ones(2, 4)).square().mean().backward()

    def one():
        model = made(Net)
        shard(model, model.first, model.second)
        model(torch.ones(2, 4)).square().mean().backward()
        return whole_gradients(model)

    for got, p in zip(dist.threads.run(one, 2)[0], plain.parameters(), strict=True):
        torch.testing.assert_close(got, p.grad)


def test_mixed_precision_computes_in_one_dtype_and_keeps_another():
    def one():
        policy = MixedPrecisionPolicy(
            param_dtype=torch.float64, reduce_dtype=torch.float64, output_dtype=torch.float32
        )
        model = two_layers()
        seen = []
        model[0].register_forward_hook(
            lambda m, args, out: seen.append((m.weight.dtype, out.dtype))
        )
        shard(model, mp_policy=policy)
        out = model(torch.ones(1, 4))
        out.sum().backward()
        assert seen == [(torch.float64, torch.float64)]
        return out.dtype, model[0].weight.dtype, model[0].weight.grad.dtype

    assert dist.threads.run(one, 2) == [(torch.float32,) * 3] * 2


def test_an_old_graph_is_an_error_and_never_other_numbers():
    def one():
        model = shard(two_layers())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.ones(1, 4)
        loss = model(x).sum()
        loss.backward(retain_graph=True)
        optimizer.step()
        model(x)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()

    dist.threads.run(one, 2)


def test_a_way_around_the_hooks_is_an_error_and_never_other_numbers():
    """Gradients that enter in the middle of a module meet parameters that were given back."""

    def one():
        model = two_layers()
        model.append(torch.nn.Linear(3, 2))
        inside = []
        model[2].register_forward_hook(lambda m, args, out: inside.append(out * 2))
        shard(model, reshard_after_forward=True)
        model(torch.ones(1, 4))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            inside[0].sum().backward()

    dist.threads.run(one, 2)


def test_parameters_can_be_gathered_by_hand():
    def one():
        model = shard(two_layers())
        full = model[0].weight.full_tensor()
        assert model.unshard() is None
        assert type(model[0].weight) is torch.nn.Parameter
        assert torch.equal(model[0].weight, full)
        model.reshard()
        assert isinstance(model[0].weight, DTensor)
        model.unshard(async_op=True).wait()
        assert torch.equal(model[0].weight, full)
        model.set_reshard_after_backward(False)
        model(torch.ones(1, 4)).sum().backward()
        assert type(model[0].weight) is torch.nn.Parameter
        model.reshard()

    dist.threads.run(one, 2)


def test_other_methods_can_gather_too():
    class Net(torch.nn.Linear):
        def encode(self, x):
            return self.forward(x) * 2

    def one():
        model = made(lambda: Net(2, 2))
        expected = model.encode(torch.ones(1, 2)).tolist()
        fully_shard(model)
        register_fsdp_forward_method(model, "encode")
        found = model.encode(torch.ones(1, 2))
        found.sum().backward()
        assert found.tolist() == expected
        return model.bias.grad.full_tensor().tolist()

    assert dist.threads.run(one, 2)[0] == [2.0, 2.0]


def test_states_go_out_and_in_again():
    def one():
        model = made(Transformer)
        for part in (*model.parts(), model):
            fully_shard(part)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for step in range(2):
            optimizer.zero_grad()
            loss_of(model, Transformer, step, own_rows()).backward()
            optimizer.step()
        state = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
        assert isinstance(state[0]["head.weight"], DTensor)
        assert isinstance(state[1]["state"][0]["exp_avg"], DTensor)
        after = []
        for _ in range(2):
            optimizer.zero_grad()
            loss = loss_of(model, Transformer, 2, own_rows())
            loss.backward()
            optimizer.step()
            after.append(loss_of(model, Transformer, 3, own_rows()).item())
            model.load_state_dict(state[0])
            optimizer.load_state_dict(state[1])
        assert after[0] == after[1]
        plain = made(Transformer)
        plain.load_state_dict({k: v.full_tensor() for k, v in model.state_dict().items()})
        model.load_state_dict(plain.state_dict())
        return [v.full_tensor().tolist() for v in model.state_dict().values()] == [
            v.tolist() for v in plain.state_dict().values()
        ]

    assert dist.threads.run(one, 2) == [True, True]


def test_what_cannot_be_sharded_is_refused():
    def one():
        wrong = torch.nn.Linear(2, 2)
        wrong.scale = torch.nn.Parameter(torch.tensor(1.0))
        with pytest.raises(ValueError, match="no dimension to shard"):
            fully_shard(wrong)
        model = fully_shard(torch.nn.Linear(2, 2))
        with pytest.raises(ValueError, match="already"):
            fully_shard(model)
        kept = torch.nn.Linear(2, 2)
        fully_shard(kept, ignored_params={kept.bias})
        assert type(kept.bias) is torch.nn.Parameter

    dist.threads.run(one, 2)


def test_models_that_no_rank_could_hold_begin_without_memory():
    def initialize(model):
        for layer in model:
            if isinstance(layer, torch.nn.Linear):
                with torch.no_grad():
                    layer.weight.copy_(
                        torch.arange(float(layer.weight.numel())).view(layer.weight.shape)
                    )
                    layer.bias.fill_(0.5)

    plain = two_layers()
    initialize(plain)
    plain(torch.ones(1, 4)).mean().backward()

    def one():
        with torch.device("meta"):
            model = TwoLayers()
        shard(model, model[0])
        assert model[0].weight.device.type == "meta"
        with pytest.raises(RuntimeError, match=r"no memory yet: call to_empty"):
            model(torch.ones(1, 4))
        model.to_empty(device="cpu")
        assert isinstance(model[0].weight, DTensor)
        initialize(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(1, 4)).mean().backward()
        found = whole_gradients(model)
        before = model[0].weight.full_tensor()
        optimizer.step()
        torch.testing.assert_close(model[0].weight.full_tensor(), before - 0.1 * found[0])
        return found

    for gradients in dist.threads.run(one, 2):
        for got, p in zip(gradients, plain.parameters(), strict=True):
            torch.testing.assert_close(got, p.grad)


def test_parameters_that_were_replaced_are_taken():
    def one():
        model = shard(two_layers())
        state = {name: value * 0 + 1 for name, value in model.state_dict().items()}
        model.load_state_dict(state, assign=True)
        out = model(torch.ones(1, 4))
        expected = 6 * torch.tanh(torch.tensor(5.0)) + 1
        torch.testing.assert_close(out, expected.expand(1, 3))
        out.sum().backward()
        assert model[0].weight.grad is not None

    dist.threads.run(one, 2)


def test_what_was_frozen_can_be_trained_later():
    def one():
        model = two_layers()
        model[0].requires_grad_(False)
        shard(model, model[0])
        model(torch.ones(1, 4)).sum().backward()
        assert model[0].weight.grad is None
        model[0].requires_grad_(True)
        model.zero_grad()
        model(torch.ones(1, 4)).sum().backward()
        return whole_gradients(model)

    plain = two_layers()
    plain(torch.ones(1, 4)).sum().backward()
    for got, p in zip(dist.threads.run(one, 2)[0], plain.parameters(), strict=True):
        torch.testing.assert_close(got, p.grad)


def test_all_ranks_skip_a_step_whose_gradients_overflow_on_one():
    from pullback.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

    def one():
        model = fully_shard(torch.nn.Linear(2, 2, bias=False))
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        scaler = ShardedGradScaler("cpu", init_scale=2.0)
        before = model.weight.full_tensor()
        weights = torch.tensor([[1.0, float("inf")]])  # whose row is the second rank's
        scaler.scale((model(torch.ones(1, 2)) * weights).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        return torch.equal(model.weight.full_tensor(), before), scaler.get_scale()

    assert dist.threads.run(one, 2) == [(True, 1.0)] * 2


def test_a_process_by_itself_needs_nothing_else(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "PMI_RANK", "PMI_FD"):
        monkeypatch.delenv(name, raising=False)
    model = fully_shard(two_layers())
    try:
        model(torch.ones(1, 4)).sum().backward()
        plain = two_layers()
        plain(torch.ones(1, 4)).sum().backward()
        assert torch.equal(model[0].weight.grad.full_tensor(), plain[0].weight.grad)
    finally:
        dist.destroy_process_group()


class Branches(torch.nn.Module):
    """Parts that are called in another order than they are listed, one of them in two branches."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (torch.nn.Linear(4, 4) for _ in range(3))
        self.unused = torch.nn.Linear(4, 4)
        self.head = torch.nn.Linear(4, 11)

    def forward(self, x):
        x = self.c(x).tanh()
        return self.head(self.a(x) * self.b(self.a(x.sin())))


def gradients_of_branches(listed, steps=3, **options):
    model = made(Branches)
    if listed:
        fully_shard([getattr(model, name) for name in listed], **options)
        fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = []
    for step in range(steps):
        x = torch.linspace(-1, 1, 8).view(2, 4) + step
        with torch.no_grad():
            model.a(x)  # one of them alone
        loss = model(x.requires_grad_(step == 1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("listed", ["ab", "ca", "abc"])
@pytest.mark.parametrize("keeps", [True, False])
def test_several_modules_are_one_group(listed, keeps):
    def one():
        return gradients_of_branches(listed, reshard_after_forward=not keeps)

    wanted = gradients_of_branches("")
    for far in (False, True):
        for found in dist.threads.run(one, 2, far=far):
            assert found == pytest.approx(wanted, abs=1e-6)


def test_modules_of_one_group_are_gathered_once_and_given_back_together():
    def one():
        model = torch.nn.Sequential(
            torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 3), torch.nn.Linear(3, 2)
        )
        pair = [model[0], model[2]]
        assert fully_shard(pair, reshard_after_forward=True) is pair
        fully_shard(model)
        group = model[0]._fsdp_state.group
        assert model[2]._fsdp_state.group is group
        assert isinstance(model[2], FSDPModule)
        assert [name for name, _ in model.named_parameters()] == [
            f"{n}.{kind}" for n in (0, 2, 3) for kind in ("weight", "bias")
        ]
        seen, told = [], []
        begin = group.begin_gathering

        def counted(**options):
            seen.append(group.is_whole)
            begin(**options)

        group.begin_gathering = counted
        for part in (model[1], model[3]):
            part.register_forward_hook(lambda *_: told.append(group.is_whole))
        loss = model(torch.ones(2, 4)).sum()
        forward = seen.count(False)
        loss.backward()
        assert not group.is_whole
        return told, forward, seen.count(False)

    assert dist.threads.run(one, 2) == [([True, False], 1, 2)] * 2


def test_lists_of_modules_are_different_and_not_sharded_yet():
    def one():
        model = torch.nn.Sequential(torch.nn.Linear(2, 2))
        fully_shard([model, model[0]])
        assert isinstance(model, FSDPModule)
        assert not isinstance(model[0], FSDPModule)  # its parameters are the outer one's
        fresh = torch.nn.Linear(2, 2)
        for wrong, text in (([], "empty"), ([fresh, fresh], "twice"), ([fresh, model], "already")):
            with pytest.raises(ValueError, match=text):
                fully_shard(wrong)
        assert not isinstance(fresh, FSDPModule)

    dist.threads.run(one, 2)
