"""Stores of groups: those that ranks were given, and those that they make."""

import threading

import pullback as torch
import pullback.distributed as dist


def test_each_group_has_a_store_that_its_ranks_share():
    def one():
        rank, world = dist.get_rank(), dist.group.WORLD
        mine = [dist.new_group([0, 1]), dist.new_group([2])][rank // 2]
        mine.get_group_store().set("of", rank // 2)
        world.get_group_store().set(f"from {rank}", rank)
        world.get_group_store().barrier("set", 3)
        assert mine.get_group_store() is mine.get_group_store()
        return mine.get_group_store().get("of"), len(world.get_group_store().list_keys())

    assert dist.threads.run(one, 3) == [(b"0", 5), (b"0", 5), (b"1", 5)]


def test_a_store_that_was_given_is_the_groups_with_keys_of_their_own():
    given, found = dist.HashStore(), {}

    def one(rank):
        dist.init_process_group("threads", store=given, rank=rank, world_size=2)
        halves = [dist.new_group([0]), dist.new_group([1])]
        halves[rank].get_group_store().set("key", rank)
        dist.group.WORLD.get_group_store().set(f"key {rank}", rank)
        dist.barrier()
        found[rank] = (
            halves[rank].get_group_store().get("key"),
            dist.group.WORLD.get_group_store().get(f"key {1 - rank}"),
        )
        dist.destroy_process_group()

    ranks = [threading.Thread(target=one, args=(rank,)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    assert found == {0: (b"0", b"1"), 1: (b"1", b"0")}
    assert given.num_keys() == 4


def test_one_rank_has_a_store_without_others():
    dist.init_process_group("fake", rank=0, world_size=4)
    try:
        store = dist.group.WORLD.get_group_store()
        store.set("a", 1)
        assert store.get("a") == b"1"
        assert dist.group.WORLD.bound_device_id is None
    finally:
        dist.destroy_process_group()
    dist.init_process_group("fake", rank=0, world_size=4, device_id=torch.device("cuda:1"))
    try:
        assert dist.group.WORLD.bound_device_id == torch.device("cuda:1")
    finally:
        dist.destroy_process_group()
