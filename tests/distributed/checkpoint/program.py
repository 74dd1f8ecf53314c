"""Real torch, on two ranks with gloo: reads the checkpoint `ours`, and writes `theirs`."""

import json
import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
import torch.multiprocessing as mp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor


def state(full=True):
    mesh = dist.init_device_mesh("cpu", (2,))
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


def values(found):
    for key, value in found.items():
        if isinstance(value, dict):
            yield from ((f"{key}.{name}", one) for name, one in values(value))
        elif isinstance(value, torch.Tensor):
            whole = value.full_tensor() if hasattr(value, "full_tensor") else value
            yield str(key), (whole.dtype, whole.tolist())
        else:
            yield str(key), value


def begun():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.arange(parameter.numel()).reshape(parameter.shape).cos())
    for part in (model[0], model[2], model):
        fully_shard(part)
    return model, torch.optim.AdamW(model.parameters(), lr=0.05)


def train(model, optimizer, steps):
    for step in steps:
        optimizer.zero_grad()
        x = torch.arange(8.0).reshape(2, 4).sin() * (step + 1)
        model(x).square().mean().backward()
        optimizer.step()
    return [p.full_tensor().tolist() for p in model.parameters()]


def job(directory):
    """Go on with the job `our_job`; leave `their_job`, and where it comes to two steps later."""
    model, optimizer = begun()
    states = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
    checkpoint.load(states, checkpoint_id=f"{directory}/our_job")
    set_state_dict(
        model, optimizer, model_state_dict=states["model"], optim_state_dict=states["optimizer"]
    )
    reached = {"ours": train(model, optimizer, (3, 4))}
    model, optimizer = begun()
    train(model, optimizer, (0, 1, 2))
    states = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
    checkpoint.save(states, checkpoint_id=f"{directory}/their_job")
    reached["theirs"] = train(model, optimizer, (3, 4))
    if dist.get_rank() == 0:
        with open(f"{directory}/reached.json", "w") as file:
            json.dump(reached, file)


def main(rank, directory):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    store = dist.FileStore(f"{directory}/store", 2)
    dist.init_process_group("gloo", rank=rank, world_size=2, store=store)
    found = state(full=False)
    checkpoint.load(found, checkpoint_id=f"{directory}/ours")
    got, want = dict(values(found)), dict(values(state()))
    step = "optimizer.state.0"
    assert got.pop(f"{step}.step", None) == want.pop(f"{step}.step")
    assert got == want, (got, want)
    checkpoint.save(state(), checkpoint_id=f"{directory}/theirs")
    job(directory)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.start_processes(main, (sys.argv[1],), nprocs=2, start_method="fork")
