"""Checkpoints: a shard for each rank, complete or not there; training goes on unchanged."""

import json

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed import checkpoint
from pullback.distributed.optim import ZeroRedundancyOptimizer
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
    (tmp_path / "step_2" / "index.json").unlink()
    assert checkpoint.latest(tmp_path).name == "step_1"
    assert checkpoint.latest(tmp_path / "none") is None
    with pytest.raises(FileNotFoundError, match="no complete checkpoint"):
        checkpoint.load(model.state_dict(), checkpoint_id=tmp_path / "step_2")
    with pytest.raises(FileExistsError, match="choose another directory"):
        checkpoint.save({}, checkpoint_id=tmp_path / "step_1")


def test_what_all_have_is_written_once_and_read_by_any_number_of_ranks(tmp_path):
    def write():
        checkpoint.save(network().state_dict(), checkpoint_id=tmp_path / "one")

    dist.threads.run(write, 3)
    written = json.loads((tmp_path / "one" / "index.json").read_text())
    assert written["ranks"] == 3
    assert sorted(set(written["where"].values())) == [0, 1, 2]
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

    assert dist.threads.run(write, 2) == [0, 1]
    with pytest.raises(KeyError, match="has no b"):
        checkpoint.load({"b": 1}, checkpoint_id=tmp_path / "one")
    with pytest.raises(ValueError, match=r"shape \(3,\), in the checkpoint \(2,\)"):
        checkpoint.load({"a": torch.ones(3)}, checkpoint_id=tmp_path / "one")
    with pytest.raises(ValueError, match="written by 2 ranks, this job has 1"):
        checkpoint.load({"mine": checkpoint.PerRank(None)}, checkpoint_id=tmp_path / "one")


def test_old_sets_can_be_removed(tmp_path):
    for step in range(4):
        checkpoint.save({"n": step}, checkpoint_id=tmp_path / f"step_{step}")
    assert checkpoint.latest(tmp_path, keep=2).name == "step_3"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_2", "step_3"]
