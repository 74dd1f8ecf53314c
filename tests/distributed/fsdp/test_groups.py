"""What is gathered among which ranks."""

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed.fsdp import fully_shard
from pullback.distributed.fsdp import groups as groups_of_parameters
from tests.distributed.fsdp.models import Convolutional, Transformer, alone, sharded


@pytest.mark.parametrize("kind", [Transformer, Convolutional])
def test_wholes_shared_out_among_neighbours_give_one_processs_losses(kind):
    wanted = alone(kind, clip=0.5)
    for found in dist.threads.run(lambda: sharded(kind, clip=0.5, reshard_after_forward=2), 4):
        assert found == pytest.approx(wanted, abs=1e-6)


@pytest.fixture
def gathered(monkeypatch):
    """The ranks of each gathering, in order, by rank."""
    seen = {}
    real = groups_of_parameters.all_gather_into_tensor

    def watched(out, part, group=None, async_op=False):
        seen.setdefault(dist.get_rank(), []).append(dist.get_process_group_ranks(group))
        return real(out, part, group=group, async_op=async_op)

    monkeypatch.setattr(groups_of_parameters, "all_gather_into_tensor", watched)
    return seen


def layer(**options):
    """One of two layers, with a large matrix and a small bias: two gatherings each time."""
    model = torch.nn.Sequential(torch.nn.Linear(300, 400), torch.nn.Tanh(), torch.nn.Linear(400, 1))
    fully_shard(model[0], **options)
    return model


def test_backward_gathers_among_neighbours_alone(gathered):
    def one():
        model = layer(reshard_after_forward=2)
        loss = model(torch.ones(1, 300)).sum()
        assert model[0].weight.to_local().shape == (100, 300)
        loss.backward()

    dist.threads.run(one, 4)
    world = [0, 1, 2, 3]
    for rank, near in enumerate([[0, 1], [0, 1], [2, 3], [2, 3]]):
        assert gathered[rank] == [world, world, near, near]


def test_pieces_of_what_has_changed_since_are_not_used(gathered):
    def one():
        model = layer(reshard_after_forward=2)
        x = torch.ones(1, 300)
        model(x)
        with torch.no_grad():
            for parameter in model[0].parameters():
                parameter.fill_(0.0)
        return model[0](x).abs().sum().item()

    assert dist.threads.run(one, 4) == [0.0] * 4
    assert gathered[0] == [[0, 1, 2, 3]] * 4


def test_the_neighbours_of_a_mesh_of_two_dimensions_share_its_second(gathered):
    def one():
        mesh = dist.init_device_mesh("cpu", (2, 4), mesh_dim_names=("replicate", "shard"))
        layer(mesh=mesh, reshard_after_forward=2)(torch.ones(1, 300)).sum().backward()

    dist.threads.run(one, 8)
    assert gathered[6] == [[4, 5, 6, 7]] * 2 + [[6, 7]] * 2


def test_all_ranks_or_one_are_the_bools(gathered):
    def one():
        layer(reshard_after_forward=1)(torch.ones(1, 300)).sum().backward()
        layer(reshard_after_forward=2)(torch.ones(1, 300)).sum().backward()
        with pytest.raises(ValueError, match="divides the 2 ranks"):
            fully_shard(torch.nn.Linear(2, 2), reshard_after_forward=3)

    dist.threads.run(one, 2)
    assert gathered[0] == [[0, 1]] * 6
