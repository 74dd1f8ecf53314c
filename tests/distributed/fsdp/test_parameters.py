"""Parameters that are cut along another dimension than rows."""

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed.fsdp import fully_shard
from pullback.distributed.tensor import DTensor, Replicate, Shard
from tests.distributed.fsdp.models import Transformer, alone, sharded


def columns(parameter):
    """The last dimension where it can be shared out evenly, which is half of the matrices'."""
    return Shard(-1) if parameter.ndim == 2 and parameter.shape[-1] % 4 == 0 else None


@pytest.mark.parametrize("options", [{}, {"reshard_after_forward": 2}])
def test_columns_give_one_processs_losses(options):
    wanted = alone(Transformer, clip=0.5)

    def one():
        return sharded(Transformer, clip=0.5, shard_placement_fn=columns, **options)

    for found in dist.threads.run(one, 4):
        assert found == pytest.approx(wanted, abs=1e-6)


def test_parts_are_columns_and_large_ones_are_too():
    torch.manual_seed(3)
    model = torch.nn.Linear(400, 300)
    x = torch.randn(2, 400)
    model(x).square().sum().backward()

    def one():
        mine = torch.nn.Linear(400, 300)
        mine.load_state_dict(model.state_dict())
        fully_shard(mine, shard_placement_fn=lambda p: Shard(p.ndim - 1))
        for _ in range(2):
            mine(x).square().sum().backward()
        weight = mine.weight
        assert weight.placements == (Shard(1),)
        assert list(weight.to_local().shape) == [300, 200]
        assert weight.to_local().is_contiguous()
        torch.testing.assert_close(weight.full_tensor(), model.weight)
        torch.testing.assert_close(weight.grad.full_tensor(), 2 * model.weight.grad)
        torch.testing.assert_close(mine.bias.grad.full_tensor(), 2 * model.bias.grad)

    dist.threads.run(one, 2)


def test_columns_go_with_matrices_in_parts():
    torch.manual_seed(3)
    weight = torch.randn(8, 8)

    def one():
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        model = torch.nn.Linear(8, 8, bias=False)
        whole = DTensor.from_local(weight, mesh["tp"], [Replicate()]).redistribute(
            placements=[Shard(1)]
        )
        model.weight = torch.nn.Parameter(whole.detach().clone())
        fully_shard(model, mesh=mesh["dp"], shard_placement_fn=lambda p: Shard(1))
        assert list(model.weight.to_local().shape) == [8, 2]
        torch.testing.assert_close(model.weight.full_tensor(), weight)

    dist.threads.run(one, 4)


def test_dimensions_that_do_not_part_evenly_or_are_not_there_are_refused():
    def one():
        model = torch.nn.Linear(3, 2)
        with pytest.raises(NotImplementedError, match="dimension 1 of weight has 3 places"):
            fully_shard(model, shard_placement_fn=lambda p: Shard(p.ndim - 1))
        with pytest.raises(ValueError, match="it gave Shard"):
            fully_shard(model, shard_placement_fn=lambda p: Shard(2))
        with pytest.raises(ValueError, match="it gave Replicate"):
            fully_shard(model, shard_placement_fn=lambda p: Replicate())

    dist.threads.run(one, 2)
