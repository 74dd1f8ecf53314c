"""The class around `fully_shard`: policies, strategies, whole and sharded states."""

from functools import partial

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed.fsdp import (
    FullStateDictConfig,
    FullyShardedDataParallel,
    MixedPrecision,
    ShardingStrategy,
    StateDictType,
)
from pullback.distributed.fsdp.wrap import (
    CustomPolicy,
    ModuleWrapPolicy,
    always_wrap_policy,
    enable_wrap,
    lambda_auto_wrap_policy,
    size_based_auto_wrap_policy,
    transformer_auto_wrap_policy,
    wrap,
)
from pullback.distributed.tensor import DTensor
from tests.distributed.fsdp.models import STEPS, Transformer, alone, loss_of, made, own_rows

LAYER = torch.nn.TransformerEncoderLayer
BY_CLASS = ModuleWrapPolicy({LAYER})


def losses(**options):
    model = FullyShardedDataParallel(made(Transformer), **options)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    found = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, Transformer, step, own_rows())
        loss.backward()
        assert model.clip_grad_norm_(0.5).ndim == 0
        optimizer.step()
        total = loss.detach()
        dist.all_reduce(total, op=dist.ReduceOp.AVG)
        found.append(total.item())
    return found


@pytest.mark.parametrize("strategy", ["FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"])
def test_ten_steps_give_one_processs_losses(strategy):
    options = {"sharding_strategy": ShardingStrategy[strategy], "auto_wrap_policy": BY_CLASS}
    wanted = alone(Transformer, clip=0.5)
    for found in dist.threads.run(lambda: losses(**options), 2):
        assert found == pytest.approx(wanted, abs=1e-6)


def test_hybrid_strategies_take_a_mesh_or_two_groups():
    def one():
        with pytest.raises(ValueError, match="needs device_mesh"):
            losses(sharding_strategy=ShardingStrategy.HYBRID_SHARD)
        mesh = dist.init_device_mesh("cpu", (2, 2))
        by_groups = losses(process_group=(mesh.get_group(1), mesh.get_group(0)))
        hybrid = {"sharding_strategy": ShardingStrategy.HYBRID_SHARD, "device_mesh": mesh}
        return by_groups, losses(**hybrid)

    wanted = alone(Transformer, clip=0.5)
    for by_groups, by_mesh in dist.threads.run(one, 4):
        assert by_groups == by_mesh == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize(
    ("policy", "count"),
    [
        (BY_CLASS, 2),
        (CustomPolicy(lambda m: isinstance(m, LAYER)), 2),
        (partial(transformer_auto_wrap_policy, transformer_layer_cls={LAYER}), 2),
        (partial(lambda_auto_wrap_policy, lambda_fn=lambda m: isinstance(m, LAYER)), 2),
        (partial(size_based_auto_wrap_policy, min_num_params=600), 2),
        (None, 0),
    ],
)
def test_policies_choose_the_parts(policy, count):
    def one():
        model = FullyShardedDataParallel(made(Transformer), auto_wrap_policy=policy)
        return sum(isinstance(m, LAYER) and "_fsdp_state" in vars(m) for m in model.modules())

    assert dist.threads.run(one, 1) == [count]


def test_always_means_every_module_and_wrap_only_inside():
    def one():
        inner = torch.nn.Sequential(torch.nn.Linear(2, 2))
        FullyShardedDataParallel(inner, auto_wrap_policy=always_wrap_policy)
        assert "_fsdp_state" in vars(inner[0])
        assert type(wrap(torch.nn.Linear(1, 1))) is torch.nn.Linear
        with enable_wrap(wrapper_cls=FullyShardedDataParallel):
            assert isinstance(wrap(torch.nn.Linear(1, 1)), FullyShardedDataParallel)

    dist.threads.run(one, 1)


def test_states_are_whole_or_parts_and_go_in_again():
    def one():
        model = FullyShardedDataParallel(made(Transformer), auto_wrap_policy=BY_CLASS)
        names = [name for name, _ in model.named_parameters()]
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        loss_of(model, Transformer, 0, own_rows()).backward()
        optimizer.step()
        whole = model.state_dict()
        assert list(whole) == names == list(made(Transformer).state_dict())
        made(Transformer).load_state_dict(whole)
        known = FullyShardedDataParallel
        with known.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
            assert isinstance(model.state_dict()["head.weight"], DTensor)
            kind = known.get_state_dict_type(torch.nn.ModuleList([model])).state_dict_type
            assert kind is StateDictType.SHARDED_STATE_DICT
        assert known.get_state_dict_type(model).state_dict_type is StateDictType.FULL_STATE_DICT
        first = FullStateDictConfig(rank0_only=True)
        with known.state_dict_type(model, StateDictType.FULL_STATE_DICT, first):
            assert bool(model.state_dict()) == (dist.get_rank() == 0)
        state = known.optim_state_dict(model, optimizer)
        assert state["state"]["head.weight"]["exp_avg"].shape == (11, 8)
        other = FullyShardedDataParallel(made(Transformer, seed=9))
        other.load_state_dict(whole)
        fresh = torch.optim.Adam(other.parameters(), lr=0.5)
        fresh.load_state_dict(known.optim_state_dict_to_load(other, fresh, state))
        found = []
        for net, steps in ((model, optimizer), (other, fresh)):
            steps.zero_grad()
            loss_of(net, Transformer, 1, own_rows()).backward()
            steps.step()
            found.append(loss_of(net, Transformer, 2, own_rows()).item())
        return found

    for first, second in dist.threads.run(one, 2):
        assert first == second


def test_models_whose_states_differ_in_kind_have_none_in_common():
    def one():
        known = FullyShardedDataParallel
        both = torch.nn.ModuleList([known(torch.nn.Linear(1, 1)) for _ in range(2)])
        known.set_state_dict_type(both[0], StateDictType.SHARDED_STATE_DICT)
        with pytest.raises(RuntimeError, match="differ"):
            known.get_state_dict_type(both)

    dist.threads.run(one, 1)


def test_gradients_wait_outside_of_synchronization():
    def one():
        model = FullyShardedDataParallel(torch.nn.Linear(2, 1, bias=False))
        with model.no_sync():
            model(torch.ones(1, 2)).sum().backward()
        assert model.weight.grad is None
        model(torch.ones(1, 2)).sum().backward()
        return model.weight.grad.full_tensor().tolist()

    assert dist.threads.run(one, 2)[0] == [[2.0, 2.0]]


def test_whole_parameters_can_be_read_and_written():
    def one():
        model = FullyShardedDataParallel(torch.nn.Linear(2, 3))
        with FullyShardedDataParallel.summon_full_params(model), torch.no_grad():
            assert model.weight.shape == (3, 2)
            model.weight.fill_(4.0)
        with FullyShardedDataParallel.summon_full_params(model, writeback=False), torch.no_grad():
            model.weight.fill_(5.0)
        return model.state_dict()["weight"].tolist()

    assert dist.threads.run(one, 2)[1] == [[4.0, 4.0]] * 3


def test_mixed_precision_and_ignored_modules():
    def one():
        inner = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2).double())
        model = FullyShardedDataParallel(
            inner,
            mixed_precision=MixedPrecision(param_dtype=torch.float64),
            ignored_modules=[inner[1]],
        )
        out = model(torch.ones(1, 2))
        assert type(inner[1].weight) is torch.nn.Parameter
        return out.dtype

    assert dist.threads.run(one, 2) == [torch.float64] * 2
