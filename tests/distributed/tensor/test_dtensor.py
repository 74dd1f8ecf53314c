"""Tensors over a mesh: parts and wholes, gradients on the way, and operators on parts."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_tensor,
    init_device_mesh,
)

WHOLE = torch.arange(15.0).reshape(5, 3)


def line(ranks=None):
    return init_device_mesh("cpu", (ranks or dist.get_world_size(),))


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_parts_are_cut_as_chunk_does_and_put_together_again(dim, ranks):
    def one():
        x = distribute_tensor(WHOLE, line(), [Shard(dim)])
        assert x.placements == (Shard(dim % 2),)
        assert list(x.shape) == [5, 3]
        assert torch.equal(x.full_tensor(), WHOLE)
        return x.to_local()

    pieces = WHOLE.chunk(ranks, dim)
    for number, part in enumerate(dist.threads.run(one, ranks)):
        if number < len(pieces):
            assert torch.equal(part, pieces[number])
        else:
            assert part.numel() == 0


PLACEMENTS = [Shard(0), Shard(1), Replicate()]


def test_every_layout_leads_to_every_other_on_a_mesh_of_two_dimensions():
    def one():
        mesh = init_device_mesh("cpu", (2, 2))
        for first in PLACEMENTS:
            for second in PLACEMENTS:
                x = distribute_tensor(WHOLE, mesh, [first, second])
                assert torch.equal(x.full_tensor(), WHOLE)
                for wanted in [(a, b) for a in PLACEMENTS for b in PLACEMENTS]:
                    y = x.redistribute(placements=wanted)
                    expected = distribute_tensor(WHOLE, mesh, wanted)
                    assert y.placements == wanted
                    assert torch.equal(y.to_local(), expected.to_local())

    dist.threads.run(one, 4)


def test_partial_sums_become_wholes_and_parts():
    def one():
        mesh = line()
        x = DTensor.from_local(WHOLE * (dist.get_rank() + 1), mesh, [Partial()])
        assert list(x.shape) == [5, 3]
        assert torch.equal(x.full_tensor(), WHOLE * 6)
        part = x.redistribute(placements=[Shard(0)]).to_local()
        assert torch.equal(part, (WHOLE * 6).chunk(3)[dist.get_rank()])
        again = distribute_tensor(WHOLE, mesh, [Replicate()]).redistribute(placements=[Partial()])
        assert torch.equal(again.full_tensor(), WHOLE)
        largest = DTensor.from_local(torch.tensor([dist.get_rank()]), mesh, [Partial("max")])
        return largest.full_tensor().item()

    assert dist.threads.run(one, 3) == [2, 2, 2]


def test_gradients_go_in_and_out():
    def one():
        rank = dist.get_rank()
        local = torch.full((2,), rank + 1.0, requires_grad=True)
        x = DTensor.from_local(local, line(), [Shard(0)])
        assert x.requires_grad
        weight = torch.arange(4.0)
        (x.full_tensor() * weight).sum().backward()
        leaf = distribute_tensor(torch.ones(4), line(), [Shard(0)]).requires_grad_()
        (leaf * leaf).to_local().sum().backward()
        assert isinstance(leaf.grad, DTensor)
        assert leaf.grad.to_local().tolist() == [2.0, 2.0]
        return local.grad.tolist()

    assert dist.threads.run(one, 2) == [[0.0, 1.0], [2.0, 3.0]]


def test_operators_of_elements_act_on_parts():
    def one():
        x = distribute_tensor(WHOLE, line(), [Shard(0)])
        y = (x * 2 + x).exp_().clamp(max=100.0)
        assert y.placements == (Shard(0),)
        assert torch.equal(y.full_tensor(), (WHOLE * 3).exp().clamp(max=100.0))
        x.add_(1)
        x.mul_(torch.tensor(2.0))
        assert torch.equal(x.full_tensor(), (WHOLE + 1) * 2)
        assert torch.zeros_like(x).placements == (Shard(0),)
        x.copy_(WHOLE)  # which every rank has
        assert torch.equal(x.full_tensor(), WHOLE)

    dist.threads.run(one, 3)


@pytest.mark.parametrize("order", [2.0, 1.0, 3.0, 0.0, float("inf"), -float("inf")])
def test_norms_add_up_over_ranks(order):
    def one():
        x = distribute_tensor(WHOLE + 1, line(), [Shard(0)])
        found = torch.linalg.vector_norm(x, order)
        assert found.placements == (Replicate(),)
        return found.full_tensor()

    wanted = torch.linalg.vector_norm(WHOLE + 1, order)
    for found in dist.threads.run(one, 4):
        torch.testing.assert_close(found, wanted)


def test_all_else_is_computed_on_the_whole():
    def one():
        x = distribute_tensor(WHOLE, line(), [Shard(0)])
        assert torch.equal(x.sum(0).full_tensor(), WHOLE.sum(0))
        assert torch.equal((x.t() @ x).full_tensor(), WHOLE.t() @ WHOLE)
        y = distribute_tensor(WHOLE, line(), [Shard(1)])
        assert torch.equal((x + y).full_tensor(), 2 * WHOLE)
        with pytest.raises(RuntimeError, match="others that do not"):
            x + WHOLE

    dist.threads.run(one, 2)


def test_copies_pickles_and_parameters_keep_the_layout():
    def one():
        x = torch.nn.Parameter(distribute_tensor(WHOLE, line(), [Shard(0)]))
        assert isinstance(x, DTensor)
        assert isinstance(copy.deepcopy(x), torch.nn.Parameter)
        loaded = pickle.loads(pickle.dumps(x))
        assert loaded.placements == x.placements
        assert loaded.device_mesh == x.device_mesh
        assert torch.equal(loaded.to_local(), x.to_local())
        assert "placements=(Shard(dim=0),)" in repr(x)

    dist.threads.run(one, 2)


def test_each_rank_may_take_its_part_of_its_own():
    def one():
        whole = torch.full((2,), float(dist.get_rank()))
        return distribute_tensor(whole, line(), [Shard(0)], src_data_rank=None).to_local().tolist()

    assert dist.threads.run(one, 2) == [[0.0], [1.0]]


def test_parts_of_different_sizes_need_the_shape():
    def one():
        rows = 2 - dist.get_rank()
        x = DTensor.from_local(torch.ones(rows, 2), line(), [Shard(0)], shape=(3, 2))
        return list(x.full_tensor().shape)

    assert dist.threads.run(one, 2) == [[3, 2]] * 2


def test_wrong_layouts_are_refused():
    def one():
        mesh = line()
        for wrong, text in [
            (lambda: distribute_tensor(WHOLE, mesh, [Shard(2)]), "2 dimensions"),
            (lambda: distribute_tensor(WHOLE, mesh, [Shard(0), Shard(1)]), "one for each of 1"),
            (lambda: distribute_tensor(WHOLE, mesh, [Partial()]), "does not become partial"),
        ]:
            with pytest.raises(ValueError, match=text):
                wrong()
        with pytest.raises(RuntimeError, match="say how"):
            distribute_tensor(WHOLE, mesh).redistribute()

    dist.threads.run(one, 1)


def test_random_numbers_are_those_of_the_whole_in_every_layout():
    wanted = torch.empty(5, 3).normal_(generator=torch.Generator().manual_seed(3))

    def one():
        for where in PLACEMENTS:
            x = distribute_tensor(WHOLE, line(), [where])
            x.normal_(generator=torch.Generator().manual_seed(3))
            assert torch.equal(x.full_tensor(), wanted)
        same = distribute_tensor(WHOLE, line(), [Replicate()])
        same.uniform_(generator=torch.Generator().manual_seed(dist.get_rank()))
        return same.to_local().tolist()

    first, second = dist.threads.run(one, 2)
    assert first == second


def test_claims_about_all_elements_are_put_together():
    def one():
        x = distribute_tensor(torch.tensor([1.0, 2.0, 0.0]), line(), [Shard(0)])
        found = [(x >= 0).all(), (x > 0).all(), (x == 0).any(), (x < 0).any(), (x > 0).all(0)]
        return [bool(answer.full_tensor()) for answer in found]

    for ranks in (2, 4):
        assert dist.threads.run(one, ranks)[-1] == [True, False, True, False, False]


@pytest.mark.parametrize(
    "act",
    [
        lambda x, y: x * y,
        lambda x, y: x.add_(y, alpha=0.5),
        lambda x, y: x / 3,
        lambda x, y: x.sqrt(),
        lambda x, y: x.mul_(2.0),
        lambda x, y: x > y,
        lambda x, y: x.clamp(min=2.0, max=5.0),
    ],
)
def test_the_short_way_of_operators_gives_what_the_long_one_does(act, monkeypatch):
    from pullback.distributed.tensor import dispatch

    def one():
        x = distribute_tensor(WHOLE + 1, line(), [Shard(0)])
        y = distribute_tensor(WHOLE * 2, line(), [Shard(0)])
        found = act(x, y)
        assert found.placements == (Shard(0),)
        return found.full_tensor(), x.full_tensor()

    short = dist.threads.run(one, 2)
    monkeypatch.setattr(dispatch, "_at_once", lambda *_: NotImplemented)
    long = dist.threads.run(one, 2)
    expected = act((whole := WHOLE + 1), WHOLE * 2), whole
    for found in (*short, *long):
        for got, wanted in zip(found, expected, strict=True):
            assert torch.equal(got, wanted)


def test_programs_that_only_import_the_class_do_not_look_for_it():
    program = """
from pullback.core import overriding
before = len(overriding.classes), len(overriding.answering)
import pullback as torch, pullback.distributed as dist
from pullback.distributed.tensor import DTensor, Shard, distribute_tensor
assert not isinstance(torch.ones(1), DTensor)
assert (len(overriding.classes), len(overriding.answering)) == before
def one():
    x = distribute_tensor(torch.arange(2.0), dist.init_device_mesh("cpu", (2,)), [Shard(0)])
    return (x + x).full_tensor().tolist()
assert dist.threads.run(one, 2) == [[0.0, 2.0]] * 2
assert id(DTensor) in overriding.answering
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[3])
