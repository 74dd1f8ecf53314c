"""Data parallel: equal bits on all ranks, means of what each rank's backward made."""

import copy
import gc
import time
import weakref
from dataclasses import dataclass

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.nn.parallel import DistributedDataParallel as DDP

RANKS = 3


def network():
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)
    )
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model


def batch(rank, step=0):
    return torch.randn(5, 4, generator=torch.Generator().manual_seed(100 * step + rank))


def mean_gradients(step=0, ranks=RANKS):
    """By one process: each rank's gradients, then their mean."""
    total = None
    for rank in range(ranks):
        model = network()
        model(batch(rank, step)).square().mean().backward()
        grads = [parameter.grad.double() for parameter in model.parameters()]
        total = grads if total is None else [a + b for a, b in zip(total, grads, strict=True)]
    return [(g / ranks).float() for g in total]


def bits(tensors):
    return [None if t is None else t.detach().numpy().tobytes() for t in tensors]


WAYS = [
    {},
    {"gradient_as_bucket_view": True},
    {"find_unused_parameters": True},
    {"static_graph": True},
    {"overlap": True},
    {"overlap": True, "find_unused_parameters": True},
    {"overlap": True, "gradient_as_bucket_view": True, "bucket_cap_mb": 1e-4},
    {"bucket_cap_mb": 1e-5},
]


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_gradients_are_the_mean_over_ranks_with_equal_bits(options):
    """B-23."""

    def train():
        model = network()
        parallel = DDP(model, **options)
        results = []
        for step in range(3):
            parallel.zero_grad()
            parallel(batch(dist.get_rank(), step)).square().mean().backward()
            results.append([p.grad.clone() for p in model.parameters()])
        return results

    results = dist.threads.run(train, RANKS)
    for step in range(3):
        for got, want in zip(results[0][step], mean_gradients(step), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)
        assert all(bits(other[step]) == bits(results[0][step]) for other in results[1:])


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_training_keeps_weights_equal_to_the_bit(options):
    def train():
        model = network()
        with torch.no_grad():
            model[0].weight += dist.get_rank()  # rank 0's values are taken
        parallel = DDP(model, **options)
        optimizer = torch.optim.Adam(parallel.parameters(), lr=0.01)
        for step in range(4):
            optimizer.zero_grad(set_to_none=step % 2 == 0)
            parallel(batch(dist.get_rank(), step)).square().mean().backward()
            optimizer.step()
        return bits(model.parameters())

    results = dist.threads.run(train, RANKS)
    assert results == [results[0]] * RANKS


def test_gradients_that_fill_a_bucket_alone_are_reduced_in_their_own_memory():
    def one():
        weight = torch.nn.Parameter(torch.ones(600, 600))
        model = torch.nn.Module()
        model.weight = weight
        model.forward = lambda x: (weight * x).sum()
        parallel = DDP(model)
        assert parallel.reducer.buckets[0].alone
        parallel(dist.get_rank() + 1.0).backward()
        return weight.grad[0, 0].item(), weight.grad[-1, -1].item()

    assert dist.threads.run(one, 2) == [(1.5, 1.5)] * 2


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_no_sync_accumulates_and_the_first_backward_outside_averages_all(options):
    """B-27."""

    def one():
        model = network()
        parallel = DDP(model, **options)
        rank = dist.get_rank()
        with parallel.no_sync():
            for step in range(2):
                parallel(batch(rank, step)).square().mean().backward()
        local = bits(p.grad for p in model.parameters())
        parallel(batch(rank, 2)).square().mean().backward()
        return local, [p.grad for p in model.parameters()]

    results = dist.threads.run(one, 2)
    assert results[0][0] != results[1][0]
    wanted = [sum(parts) for parts in zip(*(mean_gradients(s, 2) for s in range(3)), strict=True)]
    for got, want in zip(results[0][1], wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    assert bits(results[0][1]) == bits(results[1][1])


def test_the_forward_decides_whether_its_backward_averages():
    """B-27."""

    def one():
        model = network()
        parallel = DDP(model)
        loss = parallel(batch(dist.get_rank())).square().mean()
        with parallel.no_sync():
            loss.backward()
        return bits(p.grad for p in model.parameters())

    first, second = dist.threads.run(one, 2)
    assert first == second


def test_no_sync_ends_with_an_exception_too():
    """B-27."""

    def one():
        parallel = DDP(network())
        with pytest.raises(KeyError), parallel.no_sync(), parallel.no_sync():
            raise KeyError
        return parallel.require_backward_grad_sync

    assert dist.threads.run(one, 2) == [True, True]


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (torch.nn.Linear(2, 1, bias=False) for _ in range(3))
        for layer in (self.a, self.b, self.c):
            torch.nn.init.ones_(layer.weight)

    def forward(self, x, used):
        return {"deep": [sum(getattr(self, name)(x) for name in used)]}


@dataclass
class Result:
    value: object


@pytest.mark.parametrize("overlap", [False, True])
def test_a_parameter_without_gradient_is_named_at_the_next_forward(overlap):
    """B-28."""

    def one():
        parallel = DDP(Branches(), overlap=overlap)
        x = torch.ones(1, 2)
        parallel(x, "ab")["deep"][0].sum().backward()
        started = time.monotonic()
        with pytest.raises(RuntimeError, match=r"got no gradient.*: 2 \(c\.weight\)\.") as caught:
            parallel(x, "ab")
        assert time.monotonic() - started < 5
        assert "find_unused_parameters=True" in str(caught.value)

    dist.threads.run(one, 2)


@pytest.mark.parametrize("overlap", [False, True])
def test_unused_parameters_count_as_zeros_and_those_unused_everywhere_keep_their_grad(overlap):
    """B-29."""

    def one():
        model = Branches()
        parallel = DDP(model, find_unused_parameters=True, overlap=overlap)
        used = "ab" if dist.get_rank() == 0 else "a"
        parallel(torch.ones(1, 2), used)["deep"][0].sum().backward()
        grads = [layer.weight.grad for layer in (model.a, model.b, model.c)]
        return [None if g is None else g.tolist() for g in grads]

    assert dist.threads.run(one, 2) == [[[[1.0, 1.0]], [[0.5, 0.5]], None]] * 2


def test_outputs_are_searched_in_dataclasses():
    """B-29."""

    def one():
        model = Branches()
        wrapped = torch.nn.Module()
        wrapped.inner = model
        wrapped.forward = lambda x: Result({"y": (model(x, "a")["deep"][0],)})
        parallel = DDP(wrapped, find_unused_parameters=True)
        parallel(torch.ones(1, 2)).value["y"][0].sum().backward()
        return model.a.weight.grad.tolist(), model.b.weight.grad

    assert dist.threads.run(one, 2) == [([[1.0, 1.0]], None)] * 2


def test_a_static_graph_learns_what_is_unused_and_refuses_a_change():
    """B-30."""

    def one():
        parallel = DDP(Branches(), static_graph=True)
        x = torch.ones(1, 2)
        for _ in range(2):
            parallel(x, "ab")["deep"][0].sum().backward()
        assert parallel.module.c.weight.grad is None
        with pytest.raises(RuntimeError, match=r"has changed since the first.*c\.weight"):
            parallel(x, "abc")["deep"][0].sum().backward()

    dist.threads.run(one, 2)


@pytest.mark.parametrize("overlap", [False, True])
def test_two_backwards_that_together_reach_all_parameters_average_once(overlap):
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = (torch.nn.Linear(2, 1, bias=False) for _ in range(2))

        def forward(self, x):
            return self.a(x), self.b(x)

    def one():
        parallel = DDP(Two(), overlap=overlap)
        first, second = parallel(torch.full((1, 2), dist.get_rank() + 1.0))
        first.sum().backward()
        alone = parallel.module.a.weight.grad.tolist()
        second.sum().backward()
        return alone, [p.grad.tolist() for p in parallel.parameters()]

    results = dist.threads.run(one, 2)
    assert [result[0] for result in results] == [[[1.0, 1.0]], [[2.0, 2.0]]]
    assert [result[1] for result in results] == [[[[1.5, 1.5]]] * 2] * 2


def test_hooks_of_the_wrapped_module_and_of_modules_in_it_still_run():
    def one():
        parallel = DDP(network())
        seen = []
        parallel.register_full_backward_hook(lambda *_: seen.append("whole"))
        parallel.module[0].register_full_backward_hook(lambda *_: seen.append("first"))
        parallel(batch(0).requires_grad_()).sum().backward()
        return seen

    assert dist.threads.run(one, 2) == [["first", "whole"]] * 2


def test_checkpointed_parts_are_averaged_once():
    def one():
        model = network()
        wrapped = torch.nn.Module()
        wrapped.inner = model
        wrapped.forward = lambda x: torch.utils.checkpoint.checkpoint(model, x, use_reentrant=True)
        parallel = DDP(wrapped)
        x = batch(dist.get_rank()).requires_grad_()
        parallel(x).square().mean().backward()
        return [p.grad for p in model.parameters()]

    results = dist.threads.run(one, RANKS)
    for got, want in zip(results[0], mean_gradients(), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


def test_autograd_grad_stays_local():
    """B-35."""

    def one():
        model = network()
        parallel = DDP(model)
        loss = parallel(batch(dist.get_rank())).square().mean()
        grads = torch.autograd.grad(loss, list(model.parameters()))
        dist.barrier()
        return bits(grads)

    first, second = dist.threads.run(one, 2)
    assert first != second


def test_gradients_already_there_are_averaged_with():
    """B-26."""

    def one():
        model = torch.nn.Linear(1, 1, bias=False)
        parallel = DDP(model)
        model.weight.grad = torch.full((1, 1), 10.0 * dist.get_rank())
        parallel(torch.ones(1, 1)).sum().backward()
        return model.weight.grad.item()

    assert dist.threads.run(one, 2) == [6.0, 6.0]


def test_bucket_views_keep_their_memory_through_zero_grad():
    """B-34."""

    def one():
        model = network()
        parallel = DDP(model, gradient_as_bucket_view=True)
        places = []
        for step in range(3):
            parallel(batch(dist.get_rank(), step)).square().mean().backward()
            places.append(
                [p.grad._array.__array_interface__["data"][0] for p in model.parameters()]
            )
            parallel.zero_grad(set_to_none=False)
        flat = parallel.reducer.buckets[0].flat
        assert model[0].weight.grad._array.base is not None
        assert flat.size == sum(p.numel() for p in model.parameters())
        return places[0] == places[1] == places[2]

    assert dist.threads.run(one, 2) == [True, True]


def test_modules_that_differ_are_refused_by_the_name_of_the_first_difference():
    """B-22."""

    def one():
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, dist.get_rank() + 1))
        started = time.monotonic()
        with pytest.raises(RuntimeError, match=r"parameter 2: rank 0 has 1\.weight.*\[1, 2\]") as e:
            DDP(model)
        assert f"rank {dist.get_rank()}:" in str(e.value)
        assert time.monotonic() - started < 5

    dist.threads.run(one, 2)


def test_nothing_to_average_and_no_group_are_errors():
    """B-22."""

    def one():
        model = torch.nn.Linear(1, 1).requires_grad_(False)
        with pytest.raises(RuntimeError, match="no parameter of the module requires grad"):
            DDP(model)

    dist.threads.run(one, 1)
    with pytest.raises(ValueError, match=r"init_process_group\(\) first"):
        DDP(torch.nn.Linear(1, 1))


def test_freezing_after_wrapping_is_an_error():
    """B-38."""

    def one():
        model = network()
        parallel = DDP(model)
        model[0].weight.requires_grad_(False)
        with pytest.raises(RuntimeError, match="wrap the module again"):
            parallel(batch(0))

    dist.threads.run(one, 1)


def test_buffers_are_rank_0s_in_every_forward_that_follows_a_synchronised_one():
    """B-31."""

    def one():
        model = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
        model[0].running_mean += dist.get_rank()
        parallel = DDP(model)
        start = model[0].running_mean.clone()
        parallel(batch(dist.get_rank())).sum().backward()
        after = model[0].running_mean.clone()
        parallel(batch(9)).sum().backward()
        return start.tolist(), after.tolist(), model[0].running_mean.tolist()

    first, second = dist.threads.run(one, 2)
    assert first[0] == second[0] == [0.0] * 4
    assert first[1] != second[1]
    assert first[2] == second[2]


def test_state_dict_names_begin_with_module():
    """B-21."""

    def one():
        return list(DDP(torch.nn.Linear(1, 1)).state_dict())

    assert dist.threads.run(one, 1) == [["module.weight", "module.bias"]]


def test_copies_have_a_reducer_of_their_own():
    """B-39."""

    def one():
        parallel = copy.deepcopy(DDP(network()))
        parallel(batch(dist.get_rank())).square().mean().backward()
        return bits(p.grad for p in parallel.parameters())

    first, second = dist.threads.run(one, 2)
    assert first == second


def test_overlap_hides_messages_behind_the_backward():
    """B-25. Twelve layers, each of which takes 10 ms to compute and 10 ms to send."""

    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            time.sleep(0.01)
            return g

    class Layers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(12))

        def forward(self, x):
            for layer in self.layers:
                x = Slow.apply(layer(x))
            return x

    def train(overlap):
        parallel = DDP(Layers(), overlap=overlap, bucket_cap_mb=1e-4)
        parallel(torch.ones(1, 8)).sum().backward()  # buckets settle
        dist.barrier()
        started = time.perf_counter()
        parallel(torch.ones(1, 8)).sum().backward()
        return time.perf_counter() - started

    def slow_link(rank, name, size):
        return 0.01 if name == "DistributedDataParallel" and size else 0.0

    for _ in range(8):  # a machine that others use takes longer, and not the same for both
        late = max(dist.threads.run(train, 2, False, delay=slow_link))
        early = max(dist.threads.run(train, 2, True, delay=slow_link))
        assert late > 0.22  # 12 times 10 ms, twice: one after the other
        if early < 0.22:
            break
    assert early < 0.22


def test_a_rank_that_fails_in_backward_fails_the_others_within_seconds():
    def one():
        parallel = DDP(network())
        out = parallel(batch(dist.get_rank()))
        if dist.get_rank() == 1:
            out.register_hook(lambda g: 1 / 0)
        out.sum().backward()

    started = time.monotonic()
    with pytest.raises(dist.RankErrors, match=r"rank 1: ZeroDivisionError") as caught:
        dist.threads.run(one, 3)
    assert time.monotonic() - started < 5
    assert "DistributedDataParallel" in str(caught.value.errors[0])
    assert "rank 1 is gone (ZeroDivisionError" in str(caught.value.errors[2])


def test_nothing_is_left_of_a_wrapped_module():
    def one():
        parallel = DDP(network())
        parallel(batch(dist.get_rank())).sum().backward()
        return weakref.ref(parallel.reducer)

    gc.collect()
    gc.disable()
    try:
        references = dist.threads.run(one, 2)
        assert [reference() for reference in references] == [None, None]
    finally:
        gc.enable()
    from pullback.core import passes

    assert passes.at_end == []


@pytest.mark.parametrize("options", [{}, {"find_unused_parameters": True}, {"overlap": True}])
def test_sparse_gradients_are_averaged_by_themselves(options):
    """B-37."""

    def network():
        model = torch.nn.Sequential(torch.nn.Embedding(6, 2, sparse=True), torch.nn.Linear(2, 1))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.linspace(-1, 1, parameter.numel()).view_as(parameter))
        return model

    def rows(rank):
        return torch.tensor([rank, 1, 1 + 2 * rank])

    def one():
        model = network()
        parallel = DDP(model, **options)
        for _ in range(2):
            parallel.zero_grad()
            parallel(rows(dist.get_rank())).square().sum().backward()
        assert model[0].weight.grad.is_sparse
        return model[0].weight.grad.to_dense(), model[1].weight.grad

    wanted = 0
    for rank in range(2):
        model = network()
        model(rows(rank)).square().sum().backward()
        wanted = wanted + model[0].weight.grad.to_dense() / 2
    results = dist.threads.run(one, 2)
    torch.testing.assert_close(results[0][0], wanted)
    assert bits(results[0]) == bits(results[1])


def test_a_graph_can_be_called_static_later_and_the_module_tells_of_itself():

    def one():
        parallel = DDP(torch.nn.Linear(2, 2))
        parallel._set_static_graph()
        parallel(torch.ones(1, 2)).sum().backward()
        return parallel._get_ddp_logging_data()

    data = dist.threads.run(one, 2)[1]
    assert (data["world_size"], data["rank"], data["static_graph"]) == (2, 1, 1)
    assert data["total_parameter_size_bytes"] == 24
