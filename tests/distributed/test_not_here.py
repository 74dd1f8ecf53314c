"""Modules for models larger than a machine can be imported, and refuse by name."""

import importlib

import pytest

import pullback as torch
from pullback.distributed import not_here


@pytest.mark.parametrize("name", not_here.MODULES)
def test_the_module_is_found_and_every_name_of_it_refuses(name):
    module = importlib.import_module(f"pullback.distributed.{name}")
    for listed in not_here.MODULES[name].split():
        with pytest.raises(RuntimeError, match=rf"{listed} is not possible here: .+\."):
            getattr(module, listed)()
    with pytest.raises(AttributeError):
        module.no_such_name


@pytest.mark.parametrize(
    ("name", "home"),
    [
        ("_tensor.DTensor", "tensor"),
        ("_tensor.api.distribute_tensor", "tensor"),
        ("_tensor.placement_types.Shard", "tensor.placement_types"),
        ("_composable.fsdp.fully_shard", "fsdp"),
        ("_composable.replicate", "ddp.replicate"),
        ("tensor.device_mesh.DeviceMesh", "device_mesh"),
    ],
)
def test_older_paths_lead_to_what_is_here(name, home):
    path, _, last = name.rpartition(".")
    there = importlib.import_module(f"pullback.distributed.{home}")
    assert getattr(importlib.import_module(f"pullback.distributed.{path}"), last) is getattr(
        there, last
    )


def test_names_beside_what_is_here_refuse():
    from pullback.distributed import tensor

    with pytest.raises(RuntimeError, match="TensorMeta is not possible here"):
        tensor.placement_types.TensorMeta()
    assert tensor.parallel.__name__ == "pullback.distributed.tensor.parallel"


def test_placements_are_values():
    from pullback.distributed.tensor import Partial, Replicate, Shard

    assert Shard(1) == Shard(1) != Shard(0)
    assert Shard(1).is_shard(1)
    assert not Shard(1).is_shard(0)
    assert Replicate().is_replicate()
    assert not Replicate().is_partial()
    assert Partial("max").is_partial("max")
    assert not Partial().is_partial("max")


def test_torchs_inner_modules_have_the_same_functions():
    from pullback.distributed import distributed_c10d, rpc

    assert distributed_c10d.all_reduce is torch.distributed.all_reduce
    assert rpc.api.rpc_sync is rpc.rpc_sync
    assert torch.distributed.Backend("GLOO") == torch.distributed.Backend.GLOO == "gloo"
    assert torch.distributed.ReduceOp.RedOpType.MAX is torch.distributed.ReduceOp.MAX
    with pytest.raises(ValueError, match="string"):
        torch.distributed.Backend(3)


def test_the_default_group_is_that_of_all_ranks():
    from pullback.distributed.distributed_c10d import _get_default_group

    dist = torch.distributed
    assert dist.threads.run(lambda: _get_default_group().size(), 2) == [2, 2]
