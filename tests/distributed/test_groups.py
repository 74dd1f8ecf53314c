"""Groups of some of the ranks: who must call, and how they are known."""

import copy
import pickle

import pytest

import pullback as torch
import pullback.distributed as dist


def test_a_group_can_be_made_by_its_own_ranks_alone():

    def one():
        rank, found = dist.get_rank(), []
        if rank == 0:
            found.append(dist.new_group([0], use_local_synchronization=True).size())
        if rank > 0:
            for _ in range(2):
                pair = dist.new_group([1, 2], use_local_synchronization=True)
                x = torch.ones(1)
                dist.all_reduce(x, group=pair)
                found.append(x.item())
        x = torch.ones(1)
        dist.all_reduce(x)
        return [*found, x.item()]

    assert dist.threads.run(one, 3) == [[1, 3.0], [2.0, 2.0, 3.0], [2.0, 2.0, 3.0]]


def test_a_rank_outside_of_a_local_group_is_told_so():
    def one():
        if dist.get_rank() == 1:
            return dist.new_group([0], use_local_synchronization=True)
        return None

    assert dist.threads.run(one, 2)[1] == dist.GroupMember.NON_GROUP_MEMBER


def test_a_local_group_whose_ranks_do_not_come_is_an_error():
    def one():
        if dist.get_rank() == 0:
            dist.new_group([0, 1], use_local_synchronization=True)

    with pytest.raises(dist.RankErrors, match=r"new_group.*rank 1 is gone"):
        dist.threads.run(one, 2)


def test_groups_are_known_by_name_to_each_rank_its_own():
    def one():
        mine = dist.new_subgroups(2)[0]
        dist.new_group([0, 3], group_desc="ends")
        x = torch.ones(1)
        dist.all_reduce(x, group=mine.group_name)
        if dist.get_rank() in (0, 3):
            dist.all_reduce(x, group="ends")
        with pytest.raises(TypeError, match="ProcessGroup or None, got str"):
            dist.all_reduce(x, group="nobody")
        return x.item()

    assert dist.threads.run(one, 4) == [4.0, 2.0, 2.0, 4.0]


def test_a_split_is_of_the_groups_ranks_who_alone_call_it():
    def one():
        rank, world = dist.get_rank(), dist.group.WORLD
        odd = dist.new_group([1, 3])
        found = []
        if rank in (1, 3):
            pair = odd.split_group([1, 0], group_name="pair", group_desc="turned")
            x = torch.tensor([float(rank)])
            pair.allreduce([x]).wait()
            found.append((pair.rank(), pair.ranks, x.item(), pair.group_name, pair.group_desc))
            assert world.split_group([1, 3]).size() == 2  # the same ranks, of another group
            last = odd.split_group([1], timeout=5.0)
            found.append(last and (last.rank(), last.timeout))
        for wrong in ([], [0, 0]):
            with pytest.raises(RuntimeError, match="different numbers"):
                world.split_group(wrong)
        assert world.split_group([7]) is None
        with pytest.raises(RuntimeError, match="no rank 7"):
            world.split_group([7, rank])
        return found

    assert dist.threads.run(one, 4) == [
        [],
        [(1, [3, 1], 4.0, "pair", "turned"), None],
        [],
        [(0, [3, 1], 4.0, "pair", "turned"), (0, 5.0)],
    ]


def test_groups_that_meet_in_a_store_become_one():
    store = dist.HashStore()

    def one():
        rank = dist.get_rank()
        halves = [dist.new_group([0, 3]), dist.new_group([1, 2])]
        mine = halves[rank in (1, 2)]
        for _ in range(2):  # the store may be used again
            merged = mine.merge_remote_group(store, 4, group_name="all", group_desc="both")
        x = torch.tensor([float(rank)])
        dist.all_reduce(x, group=merged)
        with pytest.raises(ValueError, match="size is 1, of a group of 2"):
            mine.merge_remote_group(store, 1)
        return merged.rank(), x.item(), merged.group_name, merged.group_desc

    assert dist.threads.run(one, 4) == [(rank, 6.0, "all", "both") for rank in range(4)]


def test_a_merge_to_which_nobody_comes_ends():
    store = dist.HashStore()

    def one():
        mine = [dist.new_group([0]), dist.new_group([1])][dist.get_rank()]
        if dist.get_rank() == 0:
            mine.merge_remote_group(store, 2, timeout=0.05)

    with pytest.raises(dist.RankErrors, match="Nobody set"):
        dist.threads.run(one, 2)


def test_groups_have_torchs_types_of_back_ends_and_devices():
    def one():
        group = dist.group.WORLD
        assert group._get_backend_name() == "threads"
        assert group._get_backend(torch.device("cpu")) is group
        assert group.bound_device_id is None
        group.bound_device_id = torch.device("cuda:1")
        assert group.bound_device_id == torch.device("cuda", 1)
        with pytest.raises(RuntimeError, match="cuda has no number"):
            group.bound_device_id = torch.device("cuda")
        with pytest.raises(TypeError, match="got str"):
            group.bound_device_id = "cuda:0"
        group.bound_device_id = None
        return True

    assert dist.threads.run(one, 1) == [True]
    types = dist.ProcessGroup.BackendType
    assert [one.value for one in types] == [0, 1, 2, 5, 3, 4, 6]
    assert dist.ProcessGroup.GLOO is types.GLOO
    assert (types.of("nccl"), types.of("threads")) == (types.NCCL, types.CUSTOM)
    with pytest.raises(ValueError, match="accelerator with a number, got cpu"):
        dist.init_process_group("fake", rank=0, world_size=1, device_id=torch.device("cpu"))
    assert not dist.is_initialized()


def test_gloos_class_shares_the_groups_calls():
    def one():
        group = dist.group.WORLD
        group.backend = "gloo"
        seen = group._get_backend(torch.device("cpu"))
        assert isinstance(seen, dist.ProcessGroupGloo)
        assert not isinstance(group, dist.ProcessGroupGloo)
        x, y = torch.ones(1), torch.ones(1)
        works = [group.allreduce([x]), seen.allreduce([y])]
        seen.set_timeout(7.0)
        for work in works:
            work.wait()
        return x.item(), y.item(), group.timeout, group._line is seen._line

    assert dist.threads.run(one, 2) == [(2.0, 2.0, 7.0, True)] * 2
    with pytest.raises(NotImplementedError, match="HashStore"):
        dist.ProcessGroupGloo(dist.TCPStore("127.0.0.1", 0, is_master=True), 0, 1)


def test_works_tell_how_they_ended():
    def one():
        rank = dist.get_rank()
        work = dist.all_reduce(torch.ones(1), async_op=True)
        work.block_current_stream()
        assert work.is_completed()
        found = [work.get_future_result().wait().name]
        work = dist.all_reduce(torch.ones(1 + rank), async_op=True)
        found.append(work.get_future_result().wait().name)
        if rank == 0:
            dist.group.WORLD.set_timeout(0.05)
            work = dist.barrier(async_op=True)
            found.append(work.get_future_result().wait().name)
            assert isinstance(work.exception(), dist.DistBackendError)
        else:
            import time

            time.sleep(0.2)
        return found

    assert dist.threads.run(one, 2) == [
        ["SUCCESS", "COMM_ERROR", "TIMEOUT"],
        ["SUCCESS", "COMM_ERROR"],
    ]


def test_sums_of_products_with_a_factor():
    def one():
        rank = dist.get_rank()
        op = dist._make_nccl_premul_sum(torch.tensor(rank + 1.0))  # each rank its own
        x, y = torch.tensor(3.0), torch.full((2,), 3.0).half()
        dist.all_reduce(x, op=op)
        dist.reduce(y, 0, op=op)
        parts, rows = torch.zeros(1), torch.tensor([1.0, 10.0])
        dist.reduce_scatter_tensor(parts, rows, op=op)
        listed = torch.zeros(1)
        dist.reduce_scatter(listed, [rows[:1], rows[1:]], op=op)
        together = [torch.ones(1), torch.ones(2)]
        dist.all_reduce_coalesced(together, op=op)
        assert rows.tolist() == [1.0, 10.0]  # what was given stays
        return x.item(), y.tolist(), parts.item(), listed.item(), together[1].tolist()

    assert dist.threads.run(one, 2) == [
        (9.0, [9.0, 9.0], 3.0, 3.0, [3.0, 3.0]),
        (9.0, [3.0, 3.0], 30.0, 30.0, [3.0, 3.0]),
    ]


def test_a_factor_belongs_to_its_operation():
    op = dist._make_nccl_premul_sum(2.0)
    assert isinstance(op, dist.ReduceOp)
    assert op == dist.ReduceOp.PREMUL_SUM
    assert op != dist.ReduceOp.SUM
    assert hash(op) == hash(dist.ReduceOp.PREMUL_SUM)
    assert pickle.loads(pickle.dumps(op)).factor == copy.deepcopy(op).factor == 2.0
    assert pickle.loads(pickle.dumps(dist.ReduceOp.MAX)) is dist.ReduceOp.MAX
    for wrong in ("2", None, True):
        with pytest.raises(TypeError, match="factor is a real number"):
            dist._make_nccl_premul_sum(wrong)
    with pytest.raises(RuntimeError, match="one factor"):
        dist._make_nccl_premul_sum(torch.ones(3))

    def refused():
        with pytest.raises(TypeError, match="needs its factor"):
            dist.all_reduce(torch.ones(1), op=dist.ReduceOp.PREMUL_SUM)
        with pytest.raises(RuntimeError, match="floating numbers, got int64"):
            dist.all_reduce(torch.ones(1, dtype=torch.int64), op=op)
        with pytest.raises(NotImplementedError, match="PREMUL_SUM has no derivative"):
            dist.nn.functional.all_reduce(torch.ones(1, requires_grad=True), op)
        dist.group.WORLD.backend = "gloo"
        with pytest.raises(RuntimeError, match="'nccl'"):
            dist.all_reduce(torch.ones(1), op=op)

    dist.threads.run(refused, 1)
