"""All operators on tensors that lie over ranks in all ways: numbers and gradients of the whole.

Short here: a sample each, a few ways, 2 ranks. `make test-distributed` tries more samples and ways,
also on meshes of 4 ranks and of 2 x 2.
"""

import os

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
from pullback.distributed.tensor.rules import RULES, rule_of, ruled
from pullback.testing import SAMPLES
from tests.distributed.tensor.law import try_operator

LONG = "PULLBACK_TEST_HOSTS" in os.environ

# They make tensors of their own, which they do not call the same on all ranks: the error says so.
_MAKE_TENSORS = """cholesky_inverse combinations linalg.householder_product linalg.matrix_power
matrix_power nanquantile quantile nn.functional.multi_margin_loss nn.functional.ctc_loss
nn.functional.multilabel_margin_loss nn.functional.pdist orgqr ormqr"""
MAKE_TENSORS = frozenset(_MAKE_TENSORS.split())
# They look at numbers past all operators: the error says so.
_LOOK_AT_NUMBERS = """histogram histogramdd nn.functional.embedding_bag repeat_interleave
nn.functional.gaussian_nll_loss nn.functional.one_hot segment_reduce unique unique_consecutive"""
LOOK_AT_NUMBERS = frozenset(_LOOK_AT_NUMBERS.split())
NO_DERIVATIVE = frozenset(
    ["floor_divide", "geqrf", "heaviside", "linalg.ldl_factor", "linalg.ldl_factor_ex"]
)
NAMES = sorted(set(SAMPLES) - LOOK_AT_NUMBERS)
GROUPS = [NAMES[first::16] for first in range(16)]


def laws_of(names, ranks, **options):
    tried = 0
    for name in names:
        tried += try_operator(
            name,
            ranks,
            gradient=name not in NO_DERIVATIVE,
            implicit=name in MAKE_TENSORS,
            **options,
        )
    assert tried


@pytest.mark.parametrize("number", range(len(GROUPS)))
def test_operators_on_parts_give_what_they_give_on_the_whole(number):
    laws_of(GROUPS[number], 2, samples=1, most=2)


@pytest.mark.skipif(not LONG, reason="long: make test-distributed")
@pytest.mark.parametrize(("ranks", "shape"), [(2, (2,)), (4, (4,)), (4, (2, 2))])
@pytest.mark.parametrize("number", range(len(GROUPS)))
def test_more_of_their_samples_in_more_ways(number, ranks, shape):
    laws_of(GROUPS[number], ranks, mesh_shape=shape, samples=4, most=12)


def test_many_operators_have_a_rule():
    assert len(ruled()) > 250
    assert all(rule_of(name) is not None for name in RULES)
    assert rule_of("mul_") is rule_of("mul")
    assert rule_of("cdist") is None


def over(ranks=None):
    return init_device_mesh("cpu", (ranks or dist.get_world_size(),))


WHOLE = torch.arange(12.0, dtype=torch.float64).reshape(4, 3) / 7 - 0.5


@pytest.mark.parametrize(
    ("act", "where", "wanted"),
    [
        (lambda x: x.sum(0), Shard(0), Partial()),
        (lambda x: x.sum(1), Shard(0), Shard(0)),
        (lambda x: x.sum(0), Shard(1), Shard(0)),
        (lambda x: x.mean(), Shard(0), Partial()),
        (lambda x: x.t() @ x, Shard(0), Partial()),
        (lambda x: x @ x.t(), Shard(0), Shard(0)),
        (lambda x: x.softmax(1), Shard(0), Shard(0)),
        (lambda x: x.softmax(0), Shard(0), Replicate()),
        (lambda x: x.amax(0), Shard(0), Replicate()),
        (lambda x: x.view(2, 2, 3), Shard(0), Shard(0)),
        (lambda x: x.reshape(12), Shard(0), Shard(0)),
        (lambda x: x.reshape(12), Shard(1), Replicate()),
        (lambda x: x.t().unsqueeze(0), Shard(0), Shard(2)),
        (lambda x: x.gelu() if hasattr(x, "gelu") else x.relu(), Shard(1), Shard(1)),
        (lambda x: x * 2, Partial(), Partial()),
        (lambda x: x + 2, Partial(), Replicate()),
        (lambda x: x.exp(), Partial(), Replicate()),
        (lambda x: x + x, Partial(), Partial()),
        (lambda x: torch.where(x > 0, x, x), Shard(0), Shard(0)),
        (lambda x: torch.nn.functional.pad(x, (1, -1), value=2.0), Shard(0), Shard(0)),
        (lambda x: x.roll(2, 1), Shard(0), Shard(0)),
        (lambda x: x.roll((1, -1), (0, 1)), Shard(0), Replicate()),
        (lambda x: x.roll(5), Shard(0), Replicate()),
        (lambda x: torch.nn.functional.max_pool1d(x, 2), Shard(0), Shard(0)),
    ],
)
def test_results_lie_where_the_least_moves(act, where, wanted):
    def one():
        plain = Replicate() if where.is_partial() else where
        x = distribute_tensor(WHOLE, over(), [plain])
        if where.is_partial():
            x = x.redistribute(placements=[where])
        made = act(x)
        torch.testing.assert_close(made.full_tensor(), act(WHOLE))
        return made.placements[0]

    assert dist.threads.run(one, 2) == [wanted] * 2


def test_an_operator_without_a_rule_warns_once(monkeypatch):
    from pullback.distributed.tensor import dispatch

    monkeypatch.setattr(dispatch, "_warned", set())

    def one():
        x = distribute_tensor(WHOLE, over(), [Shard(0)])
        return [torch.cdist(x, x).full_tensor() for _ in range(2)]

    with pytest.warns(UserWarning, match="cdist.* has no rule") as told:
        ranks = dist.threads.run(one, 2)
    for found in ranks[0]:
        torch.testing.assert_close(found, torch.cdist(WHOLE, WHOLE))
    assert len([one for one in told if "has no rule" in str(one.message)]) == 1


def test_warnings_say_the_name_that_users_know(monkeypatch):
    from pullback.distributed.tensor import dispatch

    monkeypatch.setattr(dispatch, "_warned", set())

    def one():
        return torch.linalg.inv(
            distribute_tensor(torch.eye(2) * 2, over(), [Shard(0)])
        ).full_tensor()

    with pytest.warns(UserWarning, match="^inv has no rule"):
        assert dist.threads.run(one, 2)[0].tolist() == [[0.5, 0], [0, 0.5]]


def test_parts_and_sums_meet_in_parts():
    def one():
        x = distribute_tensor(WHOLE, over(), [Shard(0)])
        made = x + distribute_tensor(WHOLE, over()).redistribute(placements=[Partial()])
        torch.testing.assert_close(made.full_tensor(), 2 * WHOLE)
        return made.placements[0]

    assert dist.threads.run(one, 2) == [Shard(0)] * 2


def test_writes_in_place_keep_the_layout_and_reach_the_parts():
    def one():
        x = distribute_tensor(WHOLE, over(), [Shard(0)])
        y = distribute_tensor(WHOLE + 1, over(), [Shard(1)])
        x.add_(y)
        assert x.placements == (Shard(0),)
        torch.testing.assert_close(x.full_tensor(), 2 * WHOLE + 1)
        x.cumsum_(0)  # along what is cut: by the whole
        assert x.placements == (Shard(0),)
        torch.testing.assert_close(x.full_tensor(), (2 * WHOLE + 1).cumsum(0))
        x[:, 1] = 5.0
        assert x.full_tensor()[:, 1].tolist() == [5.0] * 4
        x.zero_()
        assert not x.full_tensor().any()

    dist.threads.run(one, 2)


def test_a_view_that_was_gathered_is_not_written_to_and_does_not_go_stale():
    def one():
        x = distribute_tensor(WHOLE, over(), [Shard(0)])
        row = x[1]
        assert torch.equal(row.full_tensor(), WHOLE[1])
        with pytest.raises(RuntimeError, match="writes to a view"):
            x[1] = 3.0
        with pytest.raises(RuntimeError, match="writes to a view"):
            row.add_(1)
        x.mul_(2)
        with pytest.raises(RuntimeError, match="Take the view again"):
            row + 1
        assert torch.equal(x[1].full_tensor(), 2 * WHOLE[1])

    dist.threads.run(one, 2)


def test_gradients_of_replicas_are_sums_over_ranks():
    def one():
        x = distribute_tensor(WHOLE, over(), [Shard(0)])
        weight = distribute_tensor(torch.ones(2, 3, dtype=torch.float64), over()).requires_grad_()
        torch.nn.functional.linear(x, weight).square().sum().backward()
        assert isinstance(weight.grad, DTensor)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        norm = torch.nn.utils.clip_grad_norm_([weight], 1.0)
        optimizer.step()
        return weight.grad.full_tensor(), weight.full_tensor(), norm.full_tensor()

    weight = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    torch.nn.functional.linear(WHOLE, weight).square().sum().backward()
    norm = torch.nn.utils.clip_grad_norm_([weight], 1.0)
    torch.optim.SGD([weight], lr=0.1).step()
    for found in dist.threads.run(one, 2):
        for got, wanted in zip(found, (weight.grad, weight.detach(), norm), strict=True):
            torch.testing.assert_close(got, wanted)


def test_dropout_takes_the_same_elements_in_every_layout():
    def one(where):
        mesh = over()
        if dist.get_rank() == 0:
            torch.manual_seed(4)
        dist.barrier()
        x = distribute_tensor(torch.ones(6, 5), mesh, [where])
        return torch.nn.functional.dropout(x, 0.5).full_tensor()

    torch.manual_seed(4)
    wanted = torch.nn.functional.dropout(torch.ones(6, 5), 0.5)
    for where in (Replicate(), Shard(0), Shard(1)):
        for found in dist.threads.run(one, 2, where):
            assert torch.equal(found, wanted)
