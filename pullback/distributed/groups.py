"""Groups of some of the ranks: named one by one, or as parts of which each rank is in one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from pullback.distributed.call import Call
from pullback.distributed.engines.communicator import Communicator
from pullback.distributed.group import ProcessGroup, in_seconds
from pullback.distributed.world import (
    GroupMember,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    need_world,
)

__all__ = ["new_group", "new_subgroups", "new_subgroups_by_enumeration", "split_group"]


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: Any = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """A group of some ranks. Every rank calls this, also one that is not in it.

    With `use_local_synchronization` its own ranks alone need to call it.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def in_pairs():
    ...     pair = dist.new_group([0, 1])
    ...     return dist.get_rank(pair)
    >>> dist.threads.run(in_pairs, 3)
    [0, 1, -1]
    """
    default = need_world().default
    chosen = list(range(default.size())) if ranks is None else [int(rank) for rank in ranks]
    if sort_ranks:
        chosen.sort()
    _check(chosen, backend, "new_group")
    limit = in_seconds(timeout, default.timeout)
    made: Communicator | None
    if use_local_synchronization:
        if default.rank() not in chosen:
            return GroupMember.NON_GROUP_MEMBER
        call = Call("new_group", f"ranks {chosen}", limit)
        name = _local_name(chosen)
        made = default.communicator.among(call, chosen, name)
    else:
        call = Call("new_group", f"ranks {chosen}", default.timeout)
        name = _next_name(chosen)
        made = default.do(call, lambda: default.communicator.split(call, chosen, name), later=False)
    return GroupMember.NON_GROUP_MEMBER if made is None else _known(made, chosen, limit, group_desc)


def _check(chosen: list[int], backend: str | None, what: str) -> None:
    default = need_world().default
    wrong = [rank for rank in chosen if not 0 <= rank < default.size()]
    if wrong or len(set(chosen)) != len(chosen) or not chosen:
        raise ValueError(
            f"{what}: ranks are different numbers below {default.size()}, got {chosen}."
        )
    if backend not in (None, default.backend, default.communicator.engine):
        raise ValueError(f"{what}: the backend is {default.backend!r}, as of the default group.")


def _next_name(chosen: list[int]) -> str:
    """A name that all ranks agree on: each makes the same groups in the same order."""
    world = need_world()
    world.made += 1
    return f"group {world.made} of ranks {chosen}"


def _local_name(chosen: list[int], kind: str = "local") -> str:
    """A name that the ranks of the group agree on, whatever groups others have made."""
    world = need_world()
    key = (kind, *chosen)
    before = world.made_locally.get(key, 0)
    world.made_locally[key] = before + 1
    return f"{kind} group {before + 1} of ranks {chosen}"


def _known(
    made: Communicator, chosen: list[int], timeout: float, description: str | None
) -> ProcessGroup:
    world = need_world()
    fresh = ProcessGroup(made, chosen, timeout, world.default.backend)
    if description is not None:
        fresh.group_desc = description
    world.groups.append(fresh)
    return fresh


def parted(
    parts: Sequence[Sequence[int]], description: str, timeout: float | None = None
) -> ProcessGroup | None:
    """The group, of those that these parts make, that this rank is in; None if in none.

    Every rank calls it, with the same parts, of which no two share a rank: all groups are made in
    one meeting of the ranks, however many there are.
    """
    default = need_world().default
    every = [rank for part in parts for rank in part]
    _check(every, None, description)
    mine = next((list(part) for part in parts if default.rank() in part), [])
    listed = [list(part) for part in parts]
    call = Call("new groups", f"{description}, ranks {listed}", default.timeout)
    name = _next_name(mine)
    made = default.do(call, lambda: default.communicator.split(call, mine, name), later=False)
    if made is None:
        return None
    return _known(made, mine, default.timeout if timeout is None else timeout, description)


def split_of(
    parent: ProcessGroup,
    ranks: Sequence[int],
    timeout: Any,
    name: str | None,
    description: str | None,
) -> ProcessGroup | None:
    """The group of some of a group's ranks, which alone need to call it; None on others."""
    chosen = [int(rank) for rank in ranks]
    if not chosen or len(set(chosen)) != len(chosen):
        raise RuntimeError(f"split_group: ranks are different numbers, one or more; got {chosen}.")
    if parent.rank() not in chosen:
        return None
    wrong = [rank for rank in chosen if not 0 <= rank < parent.size()]
    if wrong:
        raise RuntimeError(f"split_group: {parent} has no rank {wrong[0]}.")
    every = [parent.ranks[rank] for rank in chosen]
    given = name or f"{parent.group_name}:split:{chosen}"
    # The parent's name is in it: a group and a part of it may have the same numbers.
    meeting = _local_name(every, f"{given} in {parent.group_name}")
    return _together(
        "split_group", parent, chosen, every, meeting, timeout, given, description or given
    )


def merged(
    group: ProcessGroup,
    store: Any,
    size: int,
    timeout: Any,
    name: str | None,
    description: str | None,
) -> ProcessGroup:
    """One group of all ranks that come to a store, `size` of them, of this job."""
    if size < group.size():
        raise ValueError(f"merge_remote_group: size is {size}, of a group of {group.size()}.")
    world = need_world()
    limit = timedelta(seconds=in_seconds(timeout, group.timeout))
    number = int(store.add("mergeGroupRank", 1)) - 1
    meeting, own = divmod(number, size)  # a store may be used again
    keys = [f"merge/{meeting}/{place}" for place in range(size)]
    store.set(keys[own], str(world.default.rank()))
    store.wait(keys, limit)
    every = sorted(int(store.get(key)) for key in keys)
    _check(every, None, "merge_remote_group")
    given = name or f"{group.group_name}:merge"
    place = _local_name(every, "merged")
    return _together(
        "merge_remote_group",
        world.default,
        every,
        every,
        place,
        limit,
        given,
        description or f"{group.group_desc}:merge",
    )


def _together(
    what: str,
    parent: ProcessGroup,
    chosen: list[int],
    every: list[int],
    meeting: str,
    timeout: Any,
    name: str,
    description: str,
) -> ProcessGroup:
    """The group of the ranks that come to this call, by numbers in the parent and in the job."""
    limit = in_seconds(timeout, parent.timeout)
    call = Call(what, f"ranks {every}", limit)
    made = parent.communicator.among(call, chosen, meeting)
    fresh = _known(made, every, limit, description)
    fresh.group_name = name
    return fresh


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: Any = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """One group for each list of ranks; the one this rank is in, and all.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def apart():
    ...     own, every = dist.new_subgroups_by_enumeration([[0, 2], [1]])
    ...     return dist.get_process_group_ranks(own)
    >>> dist.threads.run(apart, 3)
    [[0, 2], [1], [0, 2]]
    """
    mine, all_groups = None, []
    for ranks in ranks_per_subgroup_list:
        made = new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        all_groups.append(made)
        if get_rank() in ranks:
            mine = made
    return mine, all_groups


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: Any = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of `group_size` neighbours each.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def in_pairs():
    ...     own, every = dist.new_subgroups(2)
    ...     return dist.get_rank(own)
    >>> dist.threads.run(in_pairs, 4)
    [0, 1, 0, 1]
    """
    size = get_world_size(group)
    if group_size is None or group_size < 1 or size % group_size:
        raise ValueError(f"new_subgroups: {size} ranks do not part into groups of {group_size}.")
    ranks = get_process_group_ranks(group)
    parts = [ranks[start : start + group_size] for start in range(0, size, group_size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)


def split_group(
    parent_pg: Any = None,
    split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: Any = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> Any:
    """The group, of those in `split_ranks`, that this rank is in; None if in none.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def halves():
    ...     return dist.get_process_group_ranks(dist.split_group(split_ranks=[[0, 1], [2, 3]]))
    >>> dist.threads.run(halves, 4)
    [[0, 1], [0, 1], [2, 3], [2, 3]]
    """
    if not split_ranks:
        raise ValueError("split_group: split_ranks is empty.")
    ranks = get_process_group_ranks(parent_pg)
    parts = [[ranks[number] for number in part] for part in split_ranks]
    return new_subgroups_by_enumeration(parts, timeout, None, pg_options, group_desc)[0]
