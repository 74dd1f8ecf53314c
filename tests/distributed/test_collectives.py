"""Collectives on threads: values, in-place writes, dtypes, layouts, groups, and calls under way."""

import gc
import threading
import time

import numpy
import pytest

import pullback as torch
import pullback.distributed as dist

Op = dist.ReduceOp


def on(ranks, function, *args, **options):
    return dist.threads.run(function, ranks, *args, **options)


@pytest.mark.parametrize(
    ("op", "want"),
    [
        (Op.SUM, 6.0),
        (Op.AVG, 2.0),
        (Op.PRODUCT, 6.0),
        (Op.MIN, 1.0),
        (Op.MAX, 3.0),
    ],
)
def test_all_reduce_reduces(op, want):
    """B-2."""

    def one():
        x = torch.full((2, 2), dist.get_rank() + 1.0)
        assert dist.all_reduce(x, op) is None
        return x.tolist()

    assert on(3, one) == [[[want, want], [want, want]]] * 3


@pytest.mark.parametrize(("op", "want"), [(Op.BAND, 0b1000), (Op.BOR, 0b1111), (Op.BXOR, 0b0101)])
def test_all_reduce_of_bits(op, want):
    """B-2."""

    def one():
        x = torch.tensor(
            [0b1001, 0b1110, 0b1010][dist.get_rank()]
            if op is not Op.BXOR
            else [0b1111, 0b1001, 0b0011][dist.get_rank()]
        )
        dist.all_reduce(x, op)
        return x.item()

    assert on(3, one) == [want] * 3


DTYPES = [
    *(torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.float32),
    *(torch.float64, torch.complex64, torch.complex128),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)])
def test_every_dtype_and_shape_travels(dtype, shape):
    """B-11."""

    def one():
        x = torch.ones(shape, dtype=dtype)
        dist.all_reduce(x)
        rows = [torch.empty_like(x) for _ in range(2)]
        dist.all_gather(rows, x)
        dist.broadcast(x, 1)
        return x, rows

    wanted = torch.ones(shape, dtype=dtype)
    wanted = wanted if dtype is torch.bool else wanted + wanted
    for x, rows in on(2, one):
        assert x.dtype is dtype
        assert torch.equal(x, wanted)
        assert all(torch.equal(row, wanted) for row in rows)


def test_sums_of_half_precision_are_rounded_once():
    def one():
        x = torch.full((1,), 0.1, dtype=torch.float16)
        dist.all_reduce(x)
        return x

    exact = numpy.float16(7 * numpy.float32(numpy.float16(0.1)))
    assert on(7, one)[0].numpy()[0] == exact


def test_tensors_that_are_not_contiguous_are_written_in_place():
    """B-11."""

    def one():
        base = torch.zeros(4, 3)
        part = base.t()[::2]
        part += dist.get_rank() + 1
        dist.all_reduce(part)
        return base.sum(0).tolist()

    assert on(2, one) == [[12.0, 0.0, 12.0]] * 2


def test_writes_are_counted_and_nothing_is_recorded():
    """B-2."""

    def one():
        x = torch.ones(2, requires_grad=True)
        y = x * 2
        z = y * y
        before = y._version
        dist.all_reduce(y)
        assert y._version == before + 1
        assert y.grad_fn.name() == "MulBackward0"
        with pytest.raises(RuntimeError, match="all_reduce"):
            z.sum().backward()

    on(2, one)


@pytest.mark.parametrize("later", [False, True])
def test_every_collective_counts_its_writes_where_it_writes(later):
    """B-2. Of roots and peers only those that get something have a new version."""

    def one():
        rank = dist.get_rank()
        a, b, c, d, e, f = (torch.ones(2) for _ in range(6))
        rows = {name: [torch.ones(2), torch.ones(2)] for name in ("all_gather", "gather", "to_all")}
        pair, whole = [torch.ones(2), torch.ones(2)], torch.ones(4)
        at_0 = rank == 0
        ways = {
            "broadcast": ([a], lambda **o: dist.broadcast(a, 0, **o)),
            "reduce": ([b], lambda **o: dist.reduce(b, 0, **o)),
            "all_gather": (
                rows["all_gather"],
                lambda **o: dist.all_gather(rows["all_gather"], c, **o),
            ),
            "gather": (
                rows["gather"],
                lambda **o: dist.gather(c, rows["gather"] if at_0 else None, 0, **o),
            ),
            "scatter": ([d], lambda **o: dist.scatter(d, pair if at_0 else None, 0, **o)),
            "reduce_scatter": ([e], lambda **o: dist.reduce_scatter(e, pair, **o)),
            "to_all": (rows["to_all"], lambda **o: dist.all_to_all(rows["to_all"], pair, **o)),
            "whole": ([whole], lambda **o: dist.all_gather_into_tensor(whole, c, **o)),
            "message": (
                [f],
                lambda async_op: (
                    (dist.isend if at_0 else dist.irecv)(f, 1 - rank)
                    if async_op
                    else (dist.send if at_0 else dist.recv)(f, 1 - rank)
                ),
            ),
        }
        grown = {}
        for name, (written, act) in ways.items():
            before = [tensor._version for tensor in written]
            work = act(async_op=later)
            if later:
                work.wait()
            after = [tensor._version for tensor in written]
            grown[name] = {new - old for old, new in zip(before, after, strict=True)}
        return grown

    first, second = on(2, one)
    both = {"all_gather", "scatter", "reduce_scatter", "to_all", "whole"}
    assert {name for name, by in first.items() if by == {1}} == both | {"reduce", "gather"}
    assert {name for name, by in second.items() if by == {1}} == both | {"broadcast", "message"}
    assert all(by in ({0}, {1}) for grown in (first, second) for by in grown.values())


def test_what_is_under_way_is_kept_alive():
    """B-3."""

    def one():
        gate = dist.all_reduce(torch.ones(1), async_op=True)
        work = dist.all_reduce(torch.full((1000,), dist.get_rank() + 1.0), async_op=True)
        gc.collect()
        gate.wait()
        work.wait()
        assert work.is_completed()
        return work.result()[0].tolist() == [3.0] * 1000

    assert on(2, one, delay=lambda rank, _name, _size: 0.02 * rank) == [True, True]


def test_a_call_under_way_is_not_done_before_the_others_come():
    """B-3."""
    begun = threading.Event()

    def one():
        if dist.get_rank() == 1:
            assert begun.wait(20)
        work = dist.all_reduce(torch.ones(1), async_op=True)
        if dist.get_rank() == 0:
            assert not work.is_completed()
            assert not work.get_future().done()
            begun.set()
        assert work.wait()
        assert work.is_completed()
        assert work.get_future().done()

    on(2, one)


def test_reduce_gather_and_scatter_have_a_root():
    def one():
        rank = dist.get_rank()
        x = torch.full((2,), float(rank))
        dist.reduce(x, dst=2)
        rows = [torch.zeros(1) for _ in range(3)] if rank == 1 else None
        dist.gather(torch.tensor([float(rank)]), rows, dst=1)
        part = torch.zeros(2)
        given = [torch.full((2,), 10.0 + k) for k in range(3)] if rank == 0 else None
        dist.scatter(part, given, src=0)
        return x.tolist(), None if rows is None else torch.cat(rows).tolist(), part.tolist()

    results = on(3, one)
    assert [r[0] for r in results] == [[0.0, 0.0], [1.0, 1.0], [3.0, 3.0]]
    assert [r[1] for r in results] == [None, [0.0, 1.0, 2.0], None]
    assert [r[2] for r in results] == [[10.0, 10.0], [11.0, 11.0], [12.0, 12.0]]


def test_gathers_and_scatters_between_all():
    def one():
        rank = dist.get_rank()
        whole = torch.zeros(4)
        dist.all_gather_into_tensor(whole, torch.full((2,), float(rank)))
        stacked = torch.zeros(2, 2)
        dist.all_gather_into_tensor(stacked, torch.full((2,), float(rank)))
        part = torch.zeros(2)
        dist.reduce_scatter(part, [torch.full((2,), rank + 1.0), torch.full((2,), 10.0)])
        other = torch.zeros(2)
        dist.reduce_scatter_tensor(other, torch.arange(4.0), Op.MAX)
        several = [torch.ones(2) * rank, torch.ones(1)]
        dist.all_reduce_coalesced(several)
        return [t.tolist() for t in (whole, stacked, part, other, *several)]

    first, second = on(2, one)
    assert first[:2] == [[0.0, 0.0, 1.0, 1.0], [[0.0, 0.0], [1.0, 1.0]]]
    assert first[2] == [3.0, 3.0]
    assert second[2] == [20.0, 20.0]
    assert (first[3], second[3]) == ([0.0, 1.0], [2.0, 3.0])
    assert first[4:] == [[1.0, 1.0], [2.0]]


def test_all_to_all_moves_uneven_parts():
    def one():
        rank = dist.get_rank()
        sizes = [1, 2] if rank == 0 else [3, 1]
        out_sizes = [1, 3] if rank == 0 else [2, 1]
        out = torch.zeros(sum(out_sizes), 2)
        given = torch.full((sum(sizes), 2), float(rank))
        dist.all_to_all_single(out, given, out_sizes, sizes)
        lists = [torch.zeros(2), torch.zeros(1)]
        if rank == 1:
            lists = [torch.zeros(1), torch.zeros(2)]
        dist.all_to_all(
            lists,
            [torch.ones(2) * rank, torch.ones(1) * rank]
            if rank == 0
            else [torch.ones(1) * rank, torch.ones(2) * rank],
        )
        return out[:, 0].tolist(), [t.tolist() for t in lists]

    first, second = on(2, one)
    assert first == ([0.0, 1.0, 1.0, 1.0], [[0.0, 0.0], [1.0]])
    assert second == ([0.0, 0.0, 1.0], [[0.0], [1.0, 1.0]])


def test_parts_that_do_not_fit_are_an_error_on_all_ranks():
    """B-20."""

    def one():
        wanted = None if dist.get_rank() == 0 else [2, 1]
        out = torch.zeros(2 if wanted is None else 3)
        with pytest.raises(RuntimeError, match=r"rank 1 expects pieces of \[2, 1\] .* \[1, 1\]"):
            dist.all_to_all_single(out, torch.zeros(2), wanted)

    on(2, one)


def test_groups_have_their_own_ranks():
    def one():
        rank = dist.get_rank()
        group = dist.new_group([2, 0])
        if rank == 1:
            assert group == dist.GroupMember.NON_GROUP_MEMBER
            assert dist.get_rank(group) == -1
            with pytest.warns(UserWarning, match="not in the group"):
                dist.all_reduce(torch.ones(1), group=group)
            return None
        x = torch.tensor([float(rank)])
        dist.all_reduce(x, group=group)
        dist.broadcast(x, src=2, group=group)
        with pytest.raises(ValueError, match=r"rank 1 is not in the group of ranks \[0, 2\]"):
            dist.broadcast(x, src=1, group=group)
        assert dist.get_global_rank(group, 1) == 2
        assert dist.get_group_rank(group, 2) == 1
        return x.item(), dist.get_rank(group), dist.get_process_group_ranks(group)

    assert on(3, one) == [(2.0, 0, [0, 2]), None, (2.0, 1, [0, 2])]


def test_subgroups_part_the_world():
    def one():
        mine, groups = dist.new_subgroups(2)
        x = torch.ones(1) * dist.get_rank()
        dist.all_reduce(x, group=mine)
        assert len(groups) == 2
        return x.item()

    assert on(4, one) == [1.0, 1.0, 5.0, 5.0]


def test_calls_under_way_keep_their_order_and_tell_when_they_are_done():
    """B-3."""

    def one():
        tensors = [torch.full((1000,), float(k)) for k in range(5)]
        works = [dist.all_reduce(t, async_op=True) for t in tensors]
        last = torch.ones(1)
        dist.all_reduce(last)  # waits for its turn
        assert all(work.is_completed() and work.is_success() for work in works)
        assert works[3].get_future().value()[0] is tensors[3]
        assert works[2].wait() is True
        assert works[4].result() == [tensors[4]]
        return [t[0].item() for t in tensors]

    assert on(2, one) == [[0.0, 2.0, 4.0, 6.0, 8.0]] * 2


def test_a_call_under_way_raises_in_wait():
    def one():
        work = dist.all_reduce(torch.ones(dist.get_rank() + 1), async_op=True)
        with pytest.raises(RuntimeError, match="do not make the same call"):
            work.wait()
        assert isinstance(work.exception(), dist.DistBackendError)

    on(2, one)


def test_messages_go_from_rank_to_rank():
    """B-2."""

    def one():
        rank = dist.get_rank()
        x = torch.zeros(2)
        if rank == 0:
            dist.send(torch.tensor([1.0, 2.0]), 1, tag=7)
            dist.send(torch.tensor([3.0, 4.0]), 1)
            return None
        assert dist.recv(x) == 0
        y = torch.zeros(2)
        dist.recv(y, 0, tag=7)
        return x.tolist(), y.tolist()

    assert on(2, one)[1] == ([3.0, 4.0], [1.0, 2.0])


def test_messages_under_way_keep_their_order_between_two_ranks():
    def one():
        rank, other = dist.get_rank(), 1 - dist.get_rank()
        outs = [torch.zeros(1) for _ in range(10)]
        ops = [dist.P2POp(dist.irecv, out, other) for out in outs]
        ops += [dist.P2POp(dist.isend, torch.tensor([10.0 * rank + k]), other) for k in range(10)]
        works = dist.batch_isend_irecv(ops)
        for work in works:
            work.wait()
        assert works[0].source_rank() == other
        return [out.item() for out in outs]

    first, second = on(2, one)
    assert first == [10.0 + k for k in range(10)]
    assert second == [float(k) for k in range(10)]


def test_a_message_of_another_shape_is_an_error_that_says_both():
    def one():
        if dist.get_rank() == 0:
            dist.send(torch.ones(3), 1)
        else:
            with pytest.raises(RuntimeError, match=r"float32\[2\], rank 0 sent float32\[3\]"):
                dist.recv(torch.ones(2), 0)

    on(2, one)


def test_objects_travel():
    def one():
        rank = dist.get_rank()
        known = [None] * 2
        dist.all_gather_object(known, {"rank": rank})
        gathered = [None] * 2 if rank == 0 else None
        dist.gather_object(rank * "x", gathered)
        told = [rank, "a"]
        dist.broadcast_object_list(told, src=1)
        got = [None]
        dist.scatter_object_list(got, ["for 0", "for 1"] if rank == 0 else None, src=0)
        if rank == 0:
            dist.send_object_list([1, "two"], 1)
            sent = None
        else:
            sent = [None, None]
            assert dist.recv_object_list(sent, 0) == 0
        return known, gathered, told, got, sent

    first, second = on(2, one)
    assert first[:4] == ([{"rank": 0}, {"rank": 1}], ["", "x"], [1, "a"], ["for 0"])
    assert second[3:] == (["for 1"], [1, "two"])


def test_wrong_arguments_are_refused_before_anything_is_sent():
    def one():
        x = torch.ones(2)
        with pytest.raises(TypeError, match="takes tensors, got list"):
            dist.all_reduce([x])
        with pytest.raises(RuntimeError, match="3 tensors for 2 ranks"):
            dist.all_gather([x] * 3, x)
        with pytest.raises(RuntimeError, match=r"rank 1 is float32\[3\], not float32\[2\]"):
            dist.all_gather([torch.ones(2), torch.ones(3)], x)
        with pytest.raises(RuntimeError, match="BOR is for integers"):
            dist.all_reduce(x, Op.BOR)
        with pytest.raises(RuntimeError, match="AVG is for floating"):
            dist.all_reduce(torch.ones(1, dtype=torch.int64), Op.AVG)
        with pytest.raises(RuntimeError, match=r"2 ranks give float32\[2\] each.*float32\[3\]"):
            dist.all_gather_into_tensor(torch.ones(3), x)
        with pytest.raises(RuntimeError, match=r"an output of float32\[2\] for each of 2 ranks"):
            dist.reduce_scatter_tensor(x, torch.ones(3))
        with pytest.raises(ValueError, match="scatter_list is for rank 0, and for it alone"):
            dist.scatter(x, None if dist.get_rank() == 0 else [x, x], src=0)
        with pytest.raises(ValueError, match="'most' is no reduction"):
            dist.all_reduce(x, "most")
        with pytest.raises(RuntimeError, match="cpu"):
            dist.all_reduce(torch.ones(2, device="meta"))
        with pytest.raises(TypeError, match="takes a ProcessGroup or None, got str"):
            dist.all_reduce(x, group="others")
        with pytest.raises(ValueError, match="is this one"):
            dist.send(x, dist.get_rank())

    on(2, one)


def test_the_same_bits_come_out_of_every_run():
    """B-12."""

    def one():
        x = torch.randn(1000, generator=torch.Generator().manual_seed(dist.get_rank()))
        dist.all_reduce(x)
        return x.numpy().tobytes()

    def waits(turn):
        return lambda rank, _name, _size: 0.002 * ((rank * 7 + turn) % 5)

    runs = [on(5, one, delay=waits(turn)) for turn in range(3)]
    assert len({bits for run in runs for bits in run}) == 1


def test_64_ranks_meet():
    def one():
        x = torch.ones(10)
        for _ in range(3):
            dist.all_reduce(x)
        return x[0].item()

    started = time.monotonic()
    assert on(64, one) == [64.0**3] * 64
    assert time.monotonic() - started < 20


def test_sync_batch_norm_is_batch_norm_over_all_ranks():
    whole = torch.randn(6, 3, 4, generator=torch.Generator().manual_seed(0))
    upstream = torch.randn(6, 3, 4, generator=torch.Generator().manual_seed(1))
    plain = torch.nn.BatchNorm1d(3)
    x = whole.clone().requires_grad_()
    wanted = plain(x)
    wanted.backward(upstream)

    def one():
        rows = slice(0, 2) if dist.get_rank() == 0 else slice(2, 6)  # of different sizes
        model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(torch.nn.BatchNorm1d(3))
        part = whole[rows].clone().requires_grad_()
        out = model(part)
        out.backward(upstream[rows])
        return out.detach(), part.grad, model.weight.grad, model.running_mean, model.running_var

    first, second = on(2, one)
    close = torch.testing.assert_close
    close(torch.cat([first[0], second[0]]), wanted.detach(), rtol=1e-4, atol=1e-5)
    close(torch.cat([first[1], second[1]]), x.grad, rtol=1e-4, atol=1e-5)
    close(first[2] + second[2], plain.weight.grad, rtol=1e-4, atol=1e-5)
    for got in (first, second):
        close(got[3], plain.running_mean, rtol=1e-4, atol=1e-5)
        close(got[4], plain.running_var, rtol=1e-4, atol=1e-5)


def test_sparse_tensors_are_summed_by_their_entries():
    """B-11."""

    def main():
        rank = dist.get_rank()
        places = torch.tensor([[0, rank + 1]])
        x = torch.sparse_coo_tensor(places, torch.tensor([1.0, rank + 2.0]), (4,))
        y = x.clone()
        version = x._version
        dist.all_reduce(x)
        assert x._version > version
        work = dist.all_reduce(y, dist.ReduceOp.AVG, async_op=True)
        work.wait()
        with pytest.raises(ValueError, match="SUM or AVG, not MAX"):
            dist.all_reduce(x, dist.ReduceOp.MAX)
        return x.to_dense().tolist(), y.to_dense().tolist()

    for total, mean in dist.threads.run(main, 2):
        assert total == [2.0, 2.0, 3.0, 0.0]
        assert mean == [1.0, 1.0, 1.5, 0.0]
