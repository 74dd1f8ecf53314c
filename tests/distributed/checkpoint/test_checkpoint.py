"""Checkpoints: a shard for each rank, complete or not there; training goes on unchanged."""

import json

import numpy
import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed import checkpoint
from pullback.distributed.checkpoint.state_dict import (
    StateDictOptions,
    _init_optim_state,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from pullback.distributed.checkpoint.stateful import Stateful
from pullback.distributed.fsdp import FullyShardedDataParallel, fully_shard
from pullback.distributed.optim import ZeroRedundancyOptimizer
from pullback.distributed.tensor import Shard, distribute_tensor
from pullback.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from pullback.nn.parallel import DistributedDataParallel


def network():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model


def train(directory, until, fail_at=None):
    """Steps with a checkpoint after each, from the last complete one on."""
    parallel = DistributedDataParallel(network())
    optimizer = ZeroRedundancyOptimizer(parallel.parameters(), torch.optim.Adam, lr=0.05)
    state = {"model": parallel.module.state_dict(), "step": 0}
    found = checkpoint.latest(directory)
    if found is not None:
        mine = checkpoint.PerRank(None)
        checkpoint.load({**state, "optimizer": mine}, checkpoint_id=found)
        whole = {"step": 0}
        checkpoint.load(whole, checkpoint_id=found)
        state["step"] = whole["step"]
        optimizer.load_state_dict(mine.value)
    for step in range(state["step"], until):
        if step == fail_at and dist.get_rank() == 1:
            raise OSError("power cut")
        generator = torch.Generator().manual_seed(10 * step + dist.get_rank())
        optimizer.zero_grad()
        parallel(torch.randn(3, 4, generator=generator)).square().mean().backward()
        optimizer.step()
        local = checkpoint.PerRank(optimizer.local_state_dict())
        saved = {"model": parallel.module.state_dict(), "step": step + 1, "optimizer": local}
        checkpoint.save(saved, checkpoint_id=directory / f"step_{step + 1:03d}")
    return [p.detach().numpy().tobytes() for p in parallel.parameters()]


def test_training_goes_on_from_the_last_complete_set_to_the_same_bits(tmp_path):
    straight = dist.threads.run(train, 2, tmp_path / "a", 5)
    with pytest.raises(dist.RankErrors, match="power cut"):
        dist.threads.run(train, 2, tmp_path / "b", 5, 3)
    assert checkpoint.latest(tmp_path / "b").name == "step_003"
    assert dist.threads.run(train, 2, tmp_path / "b", 5) == straight


def test_an_interrupted_set_does_not_count(tmp_path):
    model = network()
    checkpoint.save(model.state_dict(), checkpoint_id=tmp_path / "step_1")
    checkpoint.save(model.state_dict(), checkpoint_id=tmp_path / "step_2")
    (tmp_path / "step_2" / ".metadata").unlink()
    assert checkpoint.latest(tmp_path).name == "step_1"
    assert checkpoint.latest(tmp_path / "none") is None
    with pytest.raises(checkpoint.CheckpointException, match="no complete checkpoint") as caught:
        checkpoint.load(model.state_dict(), checkpoint_id=tmp_path / "step_2")
    assert isinstance(caught.value.failures[0][0], FileNotFoundError)


class Failing(checkpoint.DefaultSavePlanner):
    """Fails on the second rank when the first value has been written."""

    def resolve_data(self, write_item):
        if dist.get_rank() == 1 and write_item.index.fqn == "b":
            raise OSError("disk full")
        return super().resolve_data(write_item)


def test_a_save_that_fails_leaves_the_one_before(tmp_path):
    def work():
        mesh = dist.init_device_mesh("cpu", (2,))
        first = {k: distribute_tensor(torch.ones(4), mesh, [Shard(0)]) for k in "ab"}
        checkpoint.save(first, checkpoint_id=tmp_path / "one")
        second = {k: distribute_tensor(torch.zeros(4), mesh, [Shard(0)]) for k in "ab"}
        with pytest.raises(checkpoint.CheckpointException, match="disk full") as caught:
            checkpoint.save(second, checkpoint_id=tmp_path / "one", planner=Failing())
        told = str(caught.value)
        assert "rank 1" in told
        assert "While writing 'b' to" in told
        checkpoint.load(second, checkpoint_id=tmp_path / "one")
        return [value.full_tensor().tolist() for value in second.values()]

    assert dist.threads.run(work, 2)[0] == [[1.0] * 4] * 2


def test_a_set_may_be_written_over_another(tmp_path):
    for number in range(3):
        checkpoint.save({"n": number, f"only_{number}": torch.ones(2)}, checkpoint_id=tmp_path)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == ["", ".distcp"]
    checkpoint.load(state := {"n": -1}, checkpoint_id=tmp_path)
    assert state == {"n": 2}
    once = checkpoint.FileSystemWriter(tmp_path, overwrite=False)
    with pytest.raises(checkpoint.CheckpointException, match="overwrite=False"):
        checkpoint.save({}, storage_writer=once)


def test_what_all_have_is_written_once_and_read_by_any_number_of_ranks(tmp_path):
    def write():
        checkpoint.save(network().state_dict(), checkpoint_id=tmp_path / "one")

    dist.threads.run(write, 3)
    written = checkpoint.FileSystemReader(tmp_path / "one").read_metadata()
    files = [place.relative_path for place in written.storage_data.values()]
    assert len(files) == 4
    assert sorted(set(files)) == ["__0_0.distcp", "__1_0.distcp", "__2_0.distcp"]
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))
    checkpoint.load(model.state_dict(), checkpoint_id=tmp_path / "one")
    for got, want in zip(model.parameters(), network().parameters(), strict=True):
        assert torch.equal(got, want)


def test_what_does_not_fit_is_refused(tmp_path):
    def write():
        given = {"a": torch.ones(2), "mine": checkpoint.PerRank(dist.get_rank())}
        checkpoint.save(given, checkpoint_id=tmp_path / "one")
        mine = checkpoint.PerRank(None)
        checkpoint.load({"mine": mine}, checkpoint_id=tmp_path / "one")
        return mine.value

    def refused(state, kind, match):
        with pytest.raises(checkpoint.CheckpointException, match=match) as caught:
            checkpoint.load(state, checkpoint_id=tmp_path / "one")
        assert isinstance(caught.value.failures[0][0], kind)

    assert dist.threads.run(write, 2) == [0, 1]
    refused({"b": 1}, KeyError, "has no 'b'")
    refused({"a": torch.ones(3)}, ValueError, r"a has shape \(3,\), in the checkpoint \(2,\)")
    refused({"a": 3}, ValueError, "a is a tensor of shape")
    refused({"mine": checkpoint.PerRank(0)}, ValueError, "written by 2 ranks, this job has 1")
    planner = checkpoint.DefaultLoadPlanner(allow_partial_load=True)
    state = {"a": torch.zeros(2), "b": 1}
    checkpoint.load(state, checkpoint_id=tmp_path / "one", planner=planner)
    assert state["b"] == 1
    assert state["a"].tolist() == [1.0, 1.0]


def test_old_sets_can_be_removed(tmp_path):
    for step in range(4):
        checkpoint.save({"n": step}, checkpoint_id=tmp_path / f"step_{step}")
    assert checkpoint.latest(tmp_path, keep=2).name == "step_3"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_2", "step_3"]


def test_sets_of_the_format_before_torchs_are_read(tmp_path):
    for rank in range(2):
        own = {"a/x": torch.ones(2)} if rank == 0 else {"n": 7}
        torch.save({**own, "mine": rank}, tmp_path / f"shard_{rank}.pt")
    where = {"a/x": 0, "n": 1, "mine": -1}
    (tmp_path / "index.json").write_text(json.dumps({"ranks": 2, "where": where}))

    def read():
        state = {"a": {"x": torch.zeros(2)}, "n": 0, "mine": checkpoint.PerRank(None)}
        checkpoint.load(state, checkpoint_id=tmp_path)
        return state["a"]["x"].tolist(), state["n"], state["mine"].value

    assert dist.threads.run(read, 2) == [([1.0, 1.0], 7, 0), ([1.0, 1.0], 7, 1)]


def test_a_copy_is_saved_while_the_program_goes_on(tmp_path):
    def work():
        x = torch.full((2,), 1.0 + dist.get_rank())
        futures = []
        for number in range(3):
            state = {"x": torch.ones(3) * number, "mine": checkpoint.PerRank(x)}
            path = tmp_path / f"step_{number}"
            futures.append(checkpoint.async_save(state, checkpoint_id=path))
            dist.all_reduce(x)  # goes on meanwhile
        for future in futures:
            future.result()
        mine = checkpoint.PerRank(None)
        checkpoint.load(state := {"x": torch.zeros(3), "mine": mine}, checkpoint_id=path)
        return state["x"].tolist(), mine.value.tolist()

    assert dist.threads.run(work, 2) == [([2.0] * 3, [6.0] * 2)] * 2


class Counter:
    def __init__(self):
        self.count = 0

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state_dict):
        self.count = state_dict["count"]


def test_objects_with_a_state_are_asked_for_it_and_given_it(tmp_path):
    counter = Counter()
    counter.count = 5
    checkpoint.save({"counter": counter}, checkpoint_id=tmp_path)
    counter.count = 0
    checkpoint.load({"counter": counter}, checkpoint_id=tmp_path)
    assert counter.count == 5
    assert isinstance(counter, Stateful)


def adam_after(steps, model, optimizer):
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.full((2, 4), step + 1.0)).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 1), (1, 2)])
@pytest.mark.parametrize("kind", ["zero", "fully_shard", "fsdp"])
def test_training_goes_on_on_another_number_of_ranks(tmp_path, kind, before, after):
    def made():
        model = network()
        if kind == "zero":
            model = DistributedDataParallel(model)
            return model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.05)
        if kind == "fsdp":
            model = FullyShardedDataParallel(model)
        else:
            for part in (*model, model):
                fully_shard(part)
        return model, torch.optim.Adam(model.parameters(), lr=0.05)

    def write():
        model, optimizer = made()
        adam_after(3, model, optimizer)
        states = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
        checkpoint.save(states, checkpoint_id=tmp_path)

    def go_on():
        model, optimizer = made()
        states = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
        checkpoint.load(states, checkpoint_id=tmp_path)
        set_state_dict(
            model,
            optimizer,
            model_state_dict=states["model"],
            optim_state_dict=states["optimizer"],
        )
        adam_after(2, model, optimizer)
        whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
        return [value.detach().numpy().copy() for value in whole.values()]

    dist.threads.run(write, before)
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    adam_after(3, model, optimizer)
    adam_after(2, model, optimizer)
    for got in dist.threads.run(go_on, after):
        for value, parameter in zip(got, model.parameters(), strict=True):
            numpy.testing.assert_allclose(value, parameter.detach().numpy(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("before", "after"), [("both", "rows"), ("rows", "both"), ("both", "no")])
def test_tensor_parallel_training_goes_on_lying_otherwise(tmp_path, before, after):
    def made(way):
        model = network()
        if way == "both":
            mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
            plan = {"0": ColwiseParallel(), "1": RowwiseParallel()}
            parallelize_module(model, mesh["tp"], plan)
            fully_shard(model, mesh=mesh["dp"])
        elif way == "rows":
            fully_shard(model)
        return model, torch.optim.Adam(model.parameters(), lr=0.05)

    def write():
        model, optimizer = made(before)
        adam_after(3, model, optimizer)
        states = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
        checkpoint.save(states, checkpoint_id=tmp_path)

    def go_on():
        model, optimizer = made(after)
        states = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
        checkpoint.load(states, checkpoint_id=tmp_path)
        set_state_dict(
            model,
            optimizer,
            model_state_dict=states["model"],
            optim_state_dict=states["optimizer"],
        )
        adam_after(2, model, optimizer)
        whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
        return [value.detach().numpy().copy() for value in whole.values()]

    ranks = {"both": 4, "rows": 3, "no": 1}
    dist.threads.run(write, ranks[before])
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    adam_after(3, model, optimizer)
    adam_after(2, model, optimizer)
    for got in dist.threads.run(go_on, ranks[after]):
        for value, parameter in zip(got, model.parameters(), strict=True):
            numpy.testing.assert_allclose(value, parameter.detach().numpy(), rtol=1e-6, atol=1e-7)


def test_an_optimizer_made_ready_is_as_before_its_first_step():
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
    before = [p.detach().clone() for p in model.parameters()]
    model(torch.ones(1, 4)).sum().backward()
    gradients = [p.grad.clone() for p in model.parameters()]
    state = get_optimizer_state_dict(model, optimizer)["state"]
    assert {float(held["step"]) for held in state.values()} == {0.0}
    for parameter, value, gradient in zip(model.parameters(), before, gradients, strict=True):
        assert torch.equal(parameter, value)
        assert torch.equal(parameter.grad, gradient)


def test_libraries_find_it_by_torchs_name():
    model = network()
    before = [parameter.clone() for parameter in model.parameters()]
    for rate in (0.5, torch.tensor(0.5)):
        optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        _init_optim_state(optimizer)
        assert len(optimizer.state) == 4
        assert optimizer.param_groups[0]["lr"] is rate
        for parameter, value in zip(model.parameters(), before, strict=True):
            assert parameter.equal(value)
            assert parameter.grad is None
            assert set(optimizer.state[parameter]) == {"step", "exp_avg", "exp_avg_sq"}


def test_flat_states_of_optimizers_come_back():
    model = network()
    groups = [{"params": model[0].parameters(), "lr": 0.5}, {"params": model[1].parameters()}]
    optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9)
    adam_after(1, model, optimizer)
    want = [one.clone() for held in optimizer.state.values() for one in held.values()]
    options = StateDictOptions(flatten_optimizer_state_dict=True)
    flat = get_optimizer_state_dict(model, optimizer, options=options)
    assert flat["param_groups.0.weight.lr"] == 0.5
    again = torch.optim.SGD(groups, lr=0.7, momentum=0.1)
    set_optimizer_state_dict(model, again, flat, options=options)
    assert [group["lr"] for group in again.param_groups] == [0.5, 0.1]
    got = [one for held in again.state.values() for one in held.values()]
    assert all(map(torch.equal, got, want))
    del flat["state.0.weight.momentum_buffer"]
    with pytest.raises(RuntimeError, match=r"has none for 0\.weight"):
        set_optimizer_state_dict(model, again, flat, options=options)


def test_the_first_rank_gives_whole_states_to_all():
    def work():
        model = fully_shard(network())
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
        states = get_state_dict(model, optimizer, options=whole)
        assert bool(states[0]) == bool(states[1]) == (dist.get_rank() == 0)
        for value in states[0].values():
            value.fill_(2.0)
        fresh = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
        set_state_dict(
            model, optimizer, model_state_dict=states[0], optim_state_dict=states[1], options=fresh
        )
        return sum(p.full_tensor().sum().item() for p in model.parameters())

    assert dist.threads.run(work, 2) == [2.0 * (32 + 8 + 16 + 2)] * 2
