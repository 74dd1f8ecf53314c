"""What data parallel promises beside the mean: order, buffers, views, copies, changed modules."""

import pickle

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.futures import Future
from pullback.nn.parallel import DistributedDataParallel as DDP


class Wandering(torch.nn.Module):
    """Layers that each rank uses in an order of its own, so that gradients come in others."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(2, 2, bias=False) for _ in range(4))

    def forward(self, x, order):
        for number in order:
            x = self.layers[number](x)
        return x


def test_buckets_travel_by_their_number_whatever_comes_first_on_a_rank():
    """B-25. Ranks that sent as gradients came would meet with other shapes' buckets, or wait."""
    sent = {0: [], 1: []}

    def hook(state, bucket):
        sent[dist.get_rank()].append(bucket.index())
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda done: done.value()[0] / 2)

    def one():
        rank = dist.get_rank()
        parallel = DDP(Wandering(), overlap=True, bucket_cap_mb=1e-6)
        parallel.register_comm_hook(None, hook)
        for _ in range(3):
            parallel.zero_grad()
            order = ([3, 1, 0, 2], [0, 1, 2, 3])[rank]
            parallel(torch.full((1, 2), rank + 1.0), order).sum().backward()
        return [p.grad.tolist() for p in parallel.parameters()]

    first, second = dist.threads.run(one, 2, timeout=20.0)
    assert first == second
    assert sent[0] == sent[1] == [0, 1, 2, 3] * 3


def test_buffers_stay_apart_after_a_forward_that_was_not_synchronised():
    """B-31: the forward after one in no_sync, or without gradients, sends no buffers."""

    def one():
        model = torch.nn.BatchNorm1d(1)
        parallel = DDP(model)
        x = torch.tensor([[1.0], [2.0 + dist.get_rank()]])
        means = []

        def forward():
            parallel(x).sum().backward()
            means.append(model.running_mean.item())

        forward()
        with parallel.no_sync():
            forward()
        forward()
        forward()
        with torch.no_grad():
            parallel(x)
        forward()
        return means

    own = [1.5, 2.0]  # the mean of each rank's batch
    for rank, means in enumerate(dist.threads.run(one, 2)):
        zero = 0.0  # what rank 0 has
        value, wanted = 0.0, []
        for takes_rank_0s, shown in ((1, 1), (1, 1), (0, 1), (1, 1), (1, 0), (0, 1)):
            value = 0.9 * (zero if takes_rank_0s else value) + 0.1 * own[rank]
            zero = 0.9 * zero + 0.1 * own[0]
            if shown:
                wanted.append(value)
        assert means == pytest.approx(wanted, rel=1e-5)


def test_buffers_can_be_left_alone():
    def one():
        model = torch.nn.BatchNorm1d(1)
        parallel = DDP(model, broadcast_buffers=False)
        for _ in range(2):
            parallel(torch.tensor([[1.0], [2.0 + dist.get_rank()]])).sum().backward()
        return model.running_mean.item()

    assert dist.threads.run(one, 2) == pytest.approx([0.285, 0.38])


def test_gradients_that_are_views_cannot_be_detached_in_place():
    """B-34."""

    def one():
        model = torch.nn.Linear(2, 2)
        parallel = DDP(model, gradient_as_bucket_view=True)
        for _ in range(2):
            parallel(torch.ones(1, 2)).sum().backward()
            for parameter in model.parameters():
                with pytest.raises(RuntimeError, match="view cannot be detached in place"):
                    parameter.grad.detach_()
        plain = DDP(torch.nn.Linear(2, 2))
        plain(torch.ones(1, 2)).sum().backward()
        plain.module.weight.grad.detach_()

    dist.threads.run(one, 2)


def test_a_hook_may_put_another_buffer_in_the_bucket():
    """B-32."""

    def hook(state, bucket):
        bucket.set_buffer(torch.full_like(bucket.buffer(), 5.0))
        assert [g.tolist() for g in bucket.gradients()] == [[[5.0, 5.0]]]
        done = Future()
        done.set_result(bucket.buffer())
        return done

    def one():
        parallel = DDP(torch.nn.Linear(2, 1, bias=False))
        parallel.register_comm_hook(None, hook)
        parallel(torch.ones(1, 2)).sum().backward()
        return parallel.module.weight.grad.tolist()

    assert dist.threads.run(one, 2) == [[[5.0, 5.0]]] * 2


def test_a_pickled_module_has_a_reducer_of_its_own():
    """B-39."""

    def one():
        parallel = pickle.loads(pickle.dumps(DDP(torch.nn.Linear(2, 1, bias=False))))
        parallel(torch.full((1, 2), dist.get_rank() + 1.0)).sum().backward()
        return parallel.module.weight.grad.tolist()

    assert dist.threads.run(one, 2) == [[[1.5, 1.5]]] * 2


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda rank: torch.nn.Linear(1, 1, bias=rank == 0),
            "parameter 1: rank 0 has bias: torch.float32 [1], rank 1 has no such parameter",
        ),
        (
            lambda rank: torch.nn.Linear(1, 1, dtype=(torch.float32, torch.float64)[rank]),
            "rank 0 has weight: torch.float32 [1, 1], rank 1 has weight: torch.float64 [1, 1]",
        ),
    ],
)
def test_other_numbers_of_parameters_and_other_dtypes_are_refused(make, text):
    """B-22."""

    def one():
        with pytest.raises(RuntimeError) as caught:
            DDP(make(dist.get_rank()))
        return str(caught.value)

    for rank, said in enumerate(dist.threads.run(one, 2, timeout=5.0)):
        assert said.startswith(f"rank {rank}:")
        assert text in said


def test_a_parameter_that_was_taken_away_is_named():
    """B-38."""

    def one():
        model = torch.nn.Linear(2, 2)
        parallel = DDP(model)
        model.bias = None
        parallel(torch.ones(1, 2)).sum().backward()
        with pytest.raises(RuntimeError, match=r"got no gradient.*: 1 \(bias\)"):
            parallel(torch.ones(1, 2))

    dist.threads.run(one, 2)
