"""Tensors that are made over a mesh."""

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed.tensor import (
    Shard,
    empty,
    full,
    init_device_mesh,
    ones,
    rand,
    randn,
    zeros,
)

MAKERS = [zeros, ones, empty, rand, randn, lambda size, **how: full((size,), 7.0, **how)]


@pytest.mark.parametrize("make", MAKERS)
def test_no_layout_is_passed_over_but_the_strided_one(make):
    def one():
        where = {"device_mesh": init_device_mesh("cpu", (2,)), "placements": [Shard(0)]}
        with pytest.raises(AssertionError, match="sparse_coo"):
            make(3, layout=torch.sparse_coo, **where)
        return list(make(3, layout=torch.strided, **where).to_local().shape)

    assert dist.threads.run(one, 2) == [[2], [1]]
