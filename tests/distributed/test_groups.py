"""Groups of some of the ranks: who must call, and how they are known."""

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
