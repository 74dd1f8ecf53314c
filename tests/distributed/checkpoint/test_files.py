"""Files of checkpoints are torch's own, in both directions; what they claim is not believed."""

import io
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed import checkpoint
from pullback.distributed.checkpoint import _metadata_file
from pullback.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp
from pullback.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from pullback.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from pullback.distributed.fsdp import fully_shard
from pullback.distributed.tensor import Replicate, Shard, distribute_tensor


def state(full=True):
    """What `program.py` has too; or the same with nothing in it."""
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    whole = torch.arange(35.0).reshape(5, 7) * full
    return {
        "rows": distribute_tensor(whole, mesh, [Shard(0)]),
        "columns": distribute_tensor(whole, mesh, [Shard(1)]),
        "everywhere": distribute_tensor(whole, mesh, [Replicate()]),
        "one": distribute_tensor(torch.ones(1) * full, mesh, [Shard(0)]),
        "half": torch.ones(3, dtype=torch.bfloat16) * 1.5 * full,
        "number": torch.tensor(3 * full),
        "view": torch.arange(6.0)[::2] * full,
        "empty": torch.zeros(0, 3),
        "n": 5 * full,
        "words": ["a", (1, 2.5)] if full else None,
        "optimizer": {
            "state": {0: {"step": torch.tensor(2.0) * full}},
            "param_groups": [{"lr": 0.1 * full, "params": [0, 1]}],
        },
    }


def equal(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, torch.Tensor):
        a, b = (one.full_tensor() if hasattr(one, "full_tensor") else one for one in (a, b))
        return a.dtype == b.dtype and torch.equal(a, b)
    return a == b and type(a) is type(b)


def read(path):
    found = state(full=False)
    checkpoint.load(found, checkpoint_id=path)
    return equal(found, state())


def test_torch_reads_ours_and_we_read_torchs(tmp_path):
    pytest.importorskip("torch")
    dist.threads.run(lambda: checkpoint.save(state(), checkpoint_id=tmp_path / "ours"), 3)
    ours = dist.threads.run(leave_job, 3, tmp_path / "our_job")[0]
    program = Path(__file__).with_name("program.py")
    subprocess.run([sys.executable, program, tmp_path], check=True, timeout=120)
    for ranks in (1, 3):
        assert dist.threads.run(read, ranks, tmp_path / "theirs") == [True] * ranks
    # A job of fully_shard and AdamW comes to the same place when the other library goes on with it.
    reached = json.loads((tmp_path / "reached.json").read_text())
    taken = dist.threads.run(take_job, 3, tmp_path / "their_job")[0]
    for got, want in ((reached["ours"], ours), (taken, reached["theirs"]), (taken, ours)):
        for a, b in zip(got, want, strict=True):
            numpy.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    dcp_to_torch_save(tmp_path / "theirs", tmp_path / "whole.pt")
    assert torch.load(tmp_path / "whole.pt")["optimizer"]["param_groups"][0]["lr"] == 0.1


def begun():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.arange(parameter.numel()).reshape(parameter.shape).cos())
    for part in (model[0], model[2], model):
        fully_shard(part)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    return model, optimizer


def train(model, optimizer, steps):
    for step in steps:
        optimizer.zero_grad()
        x = torch.arange(8.0).reshape(2, 4).sin() * (step + 1)
        model(x).square().mean().backward()
        optimizer.step()
    return [p.full_tensor().tolist() for p in model.parameters()]


def leave_job(directory):
    model, optimizer = begun()
    train(model, optimizer, (0, 1, 2))
    states = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
    checkpoint.save(states, checkpoint_id=directory)
    return train(model, optimizer, (3, 4))


def take_job(directory):
    model, optimizer = begun()
    states = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
    checkpoint.load(states, checkpoint_id=directory)
    set_state_dict(
        model, optimizer, model_state_dict=states["model"], optim_state_dict=states["optimizer"]
    )
    return train(model, optimizer, (3, 4))


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 2), (4, 1)])
def test_tensors_are_shared_out_anew(tmp_path, before, after):
    dist.threads.run(lambda: checkpoint.save(state(), checkpoint_id=tmp_path), before)
    assert dist.threads.run(read, after, tmp_path) == [True] * after


def test_one_file_and_many_are_the_same(tmp_path):
    given = {"model": {"w": torch.arange(4.0)}, "n": 3, "list": [torch.ones(2), {"lr": 0.5}]}
    torch.save(given, tmp_path / "one.pt")
    torch_save_to_dcp(tmp_path / "one.pt", tmp_path / "many")
    dcp_to_torch_save(tmp_path / "many", tmp_path / "again.pt")
    assert equal(torch.load(tmp_path / "again.pt"), given)
    writer = checkpoint.FileSystemWriter(tmp_path / "each", single_file_per_rank=False)
    checkpoint.save(given, storage_writer=writer)
    assert len(list((tmp_path / "each").glob("*.distcp"))) == 4
    dcp_to_torch_save(tmp_path / "each", tmp_path / "again.pt")
    assert equal(torch.load(tmp_path / "again.pt"), given)


def test_a_view_is_written_without_what_it_is_a_view_of(tmp_path):
    checkpoint.save({"x": torch.zeros(1_000_000)[:10]}, checkpoint_id=tmp_path)
    assert (tmp_path / "__0_0.distcp").stat().st_size < 10_000


def test_what_is_partial_is_not_saved(tmp_path):
    def work():
        mesh = dist.init_device_mesh("cpu", (2,))
        x = dist.tensor.DTensor.from_local(torch.ones(2), mesh, [dist.tensor.Partial()])
        with pytest.raises(checkpoint.CheckpointException, match="x: what each rank has is a summ"):
            checkpoint.save({"x": x}, checkpoint_id=tmp_path)

    dist.threads.run(work, 2)


class Evil:
    def __reduce__(self):
        return exec, ("raise SystemExit('ran')",)


def test_objects_that_are_no_data_are_refused_with_file_and_name(tmp_path):
    checkpoint.save({"bad": Path("x"), "n": 1}, checkpoint_id=tmp_path)
    with pytest.raises(checkpoint.CheckpointException) as caught:
        checkpoint.load({"bad": None}, checkpoint_id=tmp_path)
    assert "weights_only" in str(caught.value)
    assert f"While reading 'bad' from {tmp_path / '__0_0.distcp'}" in str(caught.value)
    checkpoint.load(found := {"n": 0}, checkpoint_id=tmp_path)
    assert found == {"n": 1}


def place(**changes):
    parts = {"relative_path": "__0_0.distcp", "offset": 0, "length": 10, **changes}
    return _metadata_file.StorageInfo(**parts)


def metadata(size=(2,), chunks=(((0,), (2,)),), where=None, paths=None):
    made = [ChunkStorageMetadata(torch.Size(a), torch.Size(b)) for a, b in chunks]
    tensor = TensorStorageMetadata(TensorProperties(), torch.Size(size), made)
    where = where if where is not None else place()
    return Metadata({"x": tensor}, paths, {MetadataIndex("x", [0]): where})


BAD = {
    "above": metadata(where=place(relative_path="../x")),
    "absolute": metadata(where=place(relative_path="/etc/passwd")),
    "negative": metadata(where=place(offset=-1)),
    "text": metadata(where=place(length="10")),
    "outside": metadata(chunks=[((1,), (2,))]),
    "dims": metadata(chunks=[((0, 0), (2, 1))]),
    "long list": metadata(paths={"x": ("x", 10**9)}),
    "no place": Metadata({"x": BytesStorageMetadata()}, storage_data={"x": 3}),
    "other": BytesStorageMetadata(),
    "fields": object.__new__(Metadata),
}


@pytest.mark.parametrize("case", BAD)
def test_metadata_that_cannot_be_is_refused(tmp_path, case):
    (tmp_path / ".metadata").write_bytes(_metadata_file.dumped(BAD[case]))
    with pytest.raises(checkpoint.CheckpointException, match=r"\.metadata is not read"):
        checkpoint.load({"x": torch.zeros(2)}, checkpoint_id=tmp_path)


@pytest.mark.parametrize("bad", [Evil(), {"x": Evil()}, Metadata({}, Evil(), {})])
def test_metadata_runs_nothing(tmp_path, bad):
    file = io.BytesIO()
    pickle.Pickler(file, 4).dump(bad)
    (tmp_path / ".metadata").write_bytes(file.getvalue())
    with pytest.raises(checkpoint.CheckpointException, match=r"\.metadata is not read"):
        checkpoint.load({"x": torch.zeros(2)}, checkpoint_id=tmp_path)


def test_files_that_end_early_and_lack_boxes_are_errors(tmp_path):
    checkpoint.save({"x": torch.ones(100)}, checkpoint_id=tmp_path)
    data = tmp_path / "__0_0.distcp"
    data.write_bytes(data.read_bytes()[:-50])
    with pytest.raises(checkpoint.CheckpointException, match=r"ends after[^$]*reading 'x' from"):
        checkpoint.load({"x": torch.zeros(100)}, checkpoint_id=tmp_path)
    lacking = metadata(size=(4,), chunks=[((0,), (2,))])
    (tmp_path / ".metadata").write_bytes(_metadata_file.dumped(lacking))
    with pytest.raises(checkpoint.CheckpointException, match="x: the checkpoint has 2 of the 4"):
        checkpoint.load({"x": torch.zeros(4)}, checkpoint_id=tmp_path)
    vast = metadata(size=(10**15,), chunks=[((0,), (10**15,))])
    (tmp_path / ".metadata").write_bytes(_metadata_file.dumped(vast))
    with pytest.raises(ValueError, match="claims tensors of 4000000000000000 bytes"):
        dcp_to_torch_save(tmp_path, tmp_path / "one.pt")
