"""Modules on several devices, with one device."""

import pytest

import pullback as torch
from pullback import nn


def test_data_parallel_calls_its_module():
    layer = nn.Linear(2, 3)
    wrapped = nn.DataParallel(layer)
    x = torch.ones(4, 2)
    assert torch.equal(wrapped(x), layer(x))
    assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]
    assert torch.equal(nn.parallel.data_parallel(layer, x), layer(x))


def test_several_devices_are_refused():
    with pytest.raises(RuntimeError, match="2 devices"):
        nn.DataParallel(nn.ReLU(), device_ids=[0, 1])


def test_replicas_share_parameters_and_have_tables_of_their_own():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    one, other = nn.parallel.replicate(model, [0, 1])
    assert one[0] is not model[0]
    assert one[0].weight is other[0].weight is model[0].weight
    one.extra = nn.ReLU()
    assert not hasattr(model, "extra")


def test_scatter_and_gather_undo_each_other():
    given = {"a": [torch.arange(4.0), (torch.ones(4, 2),)], "b": 3}
    parts = nn.parallel.scatter(given, [0, 1])
    assert len(parts) == 2
    assert parts[0]["a"][0].tolist() == [0, 1]
    assert parts[1]["b"] == 3
    joined = nn.parallel.gather([part["a"] for part in parts], "cpu")
    assert torch.equal(joined[0], given["a"][0])
    assert joined[1][0].shape == (4, 2)
    assert nn.parallel.parallel_apply([nn.ReLU()] * 2, [torch.ones(1)] * 2)[1].item() == 1


def test_distributed_data_parallel_is_found_here():
    from pullback.distributed.ddp import DistributedDataParallel

    assert nn.parallel.DistributedDataParallel is DistributedDataParallel
