"""An optimizer's state in FSDP's older calls: whole, in parts, from one rank, by other keys."""

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed.fsdp import FullyShardedDataParallel, OptimStateKeyType
from pullback.distributed.tensor import DTensor
from tests.distributed.fsdp.models import made


class Small(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))


def trained(model, optimizer, steps):
    for step in range(steps):
        optimizer.zero_grad()
        loss = model(torch.linspace(-1, 1, 6).view(2, 3) + step).square().mean()
        loss.backward()
        optimizer.step()
    return loss.item()


def fresh():
    model = FullyShardedDataParallel(made(Small))
    return model, torch.optim.Adam(model.parameters(), lr=0.1)


def alone(steps):
    model = made(Small)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    return trained(model, optimizer, steps), optimizer.state_dict()["state"]


CALLS = FullyShardedDataParallel
NAMES = ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_the_whole_state_is_one_processs_and_the_first_ranks_unless_told():
    def one():
        model, optimizer = fresh()
        trained(model, optimizer, 2)
        first = CALLS.full_optim_state_dict(model, optimizer)
        every = CALLS.full_optim_state_dict(model, optimizer, rank0_only=False)
        parts = CALLS.sharded_optim_state_dict(model, optimizer)["state"]
        assert isinstance(parts["0.weight"]["exp_avg"], DTensor)
        return bool(first), every

    _, wanted = alone(2)
    for rank, (has, every) in enumerate(dist.threads.run(one, 2)):
        assert has == (rank == 0)
        assert list(every["state"]) == every["param_groups"][0]["params"] == NAMES
        for number, name in enumerate(NAMES):
            torch.testing.assert_close(
                every["state"][name]["exp_avg"], wanted[number]["exp_avg"], rtol=1e-5, atol=1e-7
            )


@pytest.mark.parametrize("way", ["shard", "scatter", "flatten"])
def test_training_goes_on_from_a_state_that_came_back(way):
    def one():
        model, optimizer = fresh()
        trained(model, optimizer, 2)
        again, other = fresh()
        again.load_state_dict(model.state_dict())
        whole = CALLS.full_optim_state_dict(model, optimizer, rank0_only=way == "scatter")
        if way == "shard":
            state = CALLS.shard_full_optim_state_dict(whole, again, optim=other)
        elif way == "scatter":
            given = whole if dist.get_rank() == 0 else None
            state = CALLS.scatter_full_optim_state_dict(given, again, optim=other)
        else:
            parts = CALLS.sharded_optim_state_dict(model, optimizer)
            state = CALLS.flatten_sharded_optim_state_dict(parts, again, other)
        other.load_state_dict(state)
        return trained(again, other, 3), trained(model, optimizer, 3)

    for came_back, went_on in dist.threads.run(one, 2):
        assert came_back == went_on


def test_keys_are_names_or_numbers():
    def one():
        model, optimizer = fresh()
        trained(model, optimizer, 1)
        named = CALLS.full_optim_state_dict(model, optimizer, rank0_only=False)
        numbered = CALLS.rekey_optim_state_dict(
            named, OptimStateKeyType.PARAM_ID, model, optim=optimizer
        )
        assert list(numbered["state"]) == numbered["param_groups"][0]["params"] == [0, 1, 2, 3]
        assert numbered["state"][2] is named["state"]["2.weight"]
        back = CALLS.rekey_optim_state_dict(numbered, OptimStateKeyType.PARAM_NAME, model)
        assert list(back["state"]) == back["param_groups"][0]["params"] == NAMES
        with pytest.raises(ValueError, match="PARAM_NAME and PARAM_ID"):
            CALLS.rekey_optim_state_dict(named, "names", model)
        with pytest.raises(ValueError, match="the first rank gives"):
            CALLS.scatter_full_optim_state_dict(None, model, optim=optimizer)

    dist.threads.run(one, 2)


def test_models_of_the_class_are_found():
    def one():
        inner = FullyShardedDataParallel(torch.nn.Linear(2, 2))
        outer = FullyShardedDataParallel(torch.nn.Sequential(inner, torch.nn.Linear(2, 2)))
        beside = torch.nn.ModuleList([outer, FullyShardedDataParallel(torch.nn.Linear(2, 2))])
        assert CALLS.fsdp_modules(beside) == [outer, inner, beside[1]]
        assert CALLS.fsdp_modules(beside, root_only=True) == [outer, beside[1]]
        assert CALLS.fsdp_modules(torch.nn.ReLU()) == []

    dist.threads.run(one, 2)
