"""What ranks on two hosts do in the tests beside: `program.py NAME [ARGUMENTS]`."""

import os
import sys
import time

import torch  # pullback: these run under `pullback run`
import torch.distributed as dist


def summed():
    x = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(x)
    big = torch.ones(1_000_000)
    dist.all_reduce(big)
    far = dist.group.WORLD.communicator.is_far
    print(
        f"rank {dist.get_rank()} sums to {x.item():g} and {big[0].item():g}, far {far}", flush=True
    )


def by_store(address, rank):
    store = dist.TCPStore(address, 29600, 2, rank == "0")
    dist.init_process_group(store=store, rank=int(rank), world_size=2)
    summed()


def by_file(path, rank):
    dist.init_process_group(init_method=f"file://{path}", rank=int(rank), world_size=2)
    summed()


def steps():
    """Until something happens."""
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    while True:
        dist.all_reduce(torch.ones(1))
        if dist.get_rank() == 0:
            with open(os.environ["ALIVE"], "w") as file:
                file.write("x")
        time.sleep(0.02)


def until_alone():
    """Reduce with the other host until it is gone; the attempt without it ends well."""
    dist.init_process_group("gloo")
    if dist.get_world_size() == 1:
        print("alone at last", flush=True)
        return
    steps()


globals()[sys.argv[1]](*sys.argv[2:])
