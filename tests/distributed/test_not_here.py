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


def test_no_tensor_is_one_that_lies_over_ranks():
    from pullback.distributed.tensor import DTensor

    assert not isinstance(torch.ones(2), DTensor)
    with pytest.raises(AttributeError, match=r"from_local.*larger than a machine"):
        DTensor.from_local(torch.ones(2))


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
