"""Who we are: the default group, and how it begins and ends; `groups` makes others.

A process has one default group. Where ranks are threads each has its own, kept in the context
that the thread runs in; that is the only place where the two kinds differ.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from pullback.core.device import device, holder_of
from pullback.distributed import errors
from pullback.distributed.backend import BackendConfig
from pullback.distributed.engines.communicator import Communicator
from pullback.distributed.group import DEFAULT_TIMEOUT, ProcessGroup, in_seconds
from pullback.distributed.meeting import joining

__all__ = [
    "GroupMember",
    "destroy_process_group",
    "get_backend",
    "get_backend_config",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
]


class World:
    """The default group of one rank, and the groups made from it."""

    def __init__(self, default: ProcessGroup) -> None:
        self.default = default
        self.groups: list[ProcessGroup] = [default]
        self.made = 0
        self.made_locally: dict[tuple[Any, ...], int] = {}
        self.store: Any = None  # that ranks share, if they were given one
        self.at_end: list[Callable[[], None]] = []

    def close(self) -> None:
        for act in self.at_end:
            act()
        for known in reversed(self.groups):
            known.close()
        self.groups.clear()


_of_process: World | None = None
_of_thread: ContextVar[World | None] = ContextVar("pullback_distributed_world", default=None)


def current_world() -> World | None:
    """The world of this thread, or else of this process."""
    return _of_thread.get() or _of_process


def enter_thread(communicator: Communicator, timeout: float) -> World:
    """Make this thread a rank."""
    size = communicator.size
    world = World(ProcessGroup(communicator, list(range(size)), timeout, communicator.engine))
    _of_thread.set(world)
    return world


class GroupMember:
    """What stands for a group: `WORLD`, or that of others, in which this rank has no part.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> dist.threads.run(lambda: dist.group.WORLD.size(), 2)
    [2, 2]
    """

    NON_GROUP_MEMBER = -100

    @property
    def WORLD(self) -> ProcessGroup | None:  # noqa: N802 (torch's name)
        """The default group, if there is one."""
        world = current_world()
        return None if world is None else world.default


group = GroupMember()


def is_available() -> bool:
    """Always: the engine `threads` needs nothing.

    >>> import pullback as torch
    >>> torch.distributed.is_available()
    True
    """
    return True


def is_initialized() -> bool:
    """Whether there is a default group.

    >>> import pullback as torch
    >>> torch.distributed.is_initialized()
    False
    """
    return current_world() is not None


def _has(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module) is not None


def is_mpi_available() -> bool:
    """Whether mpi4py is installed.

    >>> import pullback as torch
    >>> isinstance(torch.distributed.is_mpi_available(), bool)
    True
    """
    return _has("mpi4py")


def is_gloo_available() -> bool:
    """Whether scripts that ask for gloo can run: MPI carries them.

    >>> import pullback as torch
    >>> isinstance(torch.distributed.is_gloo_available(), bool)
    True
    """
    return is_mpi_available()


def is_nccl_available() -> bool:
    """Whether CuPy has NCCL and a CUDA device is here.

    >>> import pullback as torch
    >>> torch.distributed.is_nccl_available() and not torch.cuda.is_available()
    False
    """
    if holder_of("cuda") is None:
        return False
    from pullback.distributed.engines.nccl import is_available

    return is_available()


def is_ucc_available() -> bool:
    """No.

    >>> import pullback as torch
    >>> torch.distributed.is_ucc_available()
    False
    """
    return False


def is_xccl_available() -> bool:
    """No.

    >>> import pullback as torch
    >>> torch.distributed.is_xccl_available()
    False
    """
    return False


def is_backend_available(backend: str) -> bool:
    """Whether an engine of this name can be used here.

    >>> import pullback as torch
    >>> torch.distributed.is_backend_available("threads")
    True
    """
    if backend.lower() in ("mpi", "gloo"):
        return is_mpi_available()
    if backend.lower() == "nccl":
        return is_nccl_available()
    return backend.lower() in ("threads", "fake")


def is_torchelastic_launched() -> bool:
    """Whether a launcher that restarts ranks started this process.

    >>> import pullback as torch
    >>> torch.distributed.is_torchelastic_launched()
    False
    """
    return "TORCHELASTIC_RUN_ID" in os.environ


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: Any = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Join the other ranks: under mpiexec, `pullback launch`, or by RANK and WORLD_SIZE.

    `backend` is "mpi" (also by the name "gloo", which scripts written for torch say), "fake", a
    user's own (`Backend.register_backend`), or None: MPI where this process is one of several.
    Ranks that are threads are begun by `pullback.distributed.threads.run`, and need not call this;
    threads of one's own say "threads", with a store that they share.

    >>> import pullback.distributed as dist
    >>> dist.init_process_group("fake", rank=1, world_size=4)
    >>> dist.get_rank(), dist.get_world_size()
    (1, 4)
    >>> dist.destroy_process_group()
    """
    global _of_process
    limit = in_seconds(timeout, DEFAULT_TIMEOUT)
    if _of_thread.get() is not None:
        if backend not in (None, "threads", "gloo", "mpi", "cpu:gloo"):
            raise ValueError(f"This rank is a thread: its backend is 'threads', not {backend!r}.")
        _of_thread.get().default.timeout = limit  # type: ignore[union-attr]  # set where a world is
        return
    if _of_process is not None:
        raise ValueError(
            "init_process_group() was called already; destroy_process_group() ends that group."
        )
    if backend is not None and str(backend).lower() == "threads" and store is not None:
        entered = enter_thread(joining.thread_of(store, rank, world_size), limit)
        entered.store, entered.default.bound_device_id = store, _numbered(device_id)
        return
    place = joining.find(backend, init_method, world_size, rank, store, limit)
    communicator = place.connect()
    size = communicator.size
    default = ProcessGroup(communicator, list(range(size)), limit, place.backend)
    default.bound_device_id = _numbered(device_id)
    _of_process = World(default)
    _of_process.store = store
    if size > 1 and communicator.engine in ("mpi", "nccl"):
        sys.excepthook = _abort_on_exception(communicator, sys.excepthook)


def _numbered(device_id: Any) -> Any:
    """The device of `device_id=`, a torch.device or the number of one."""
    known = device("cuda", device_id) if isinstance(device_id, int) else device_id
    if known is not None and (known.type == "cpu" or known.index is None):
        raise ValueError(
            f"init_process_group: device_id is an accelerator with a number, got {known}."
        )
    return known


def _abort_on_exception(communicator: Communicator, before: Any) -> Any:
    """An exception that ends one rank ends the job: the others would wait for it."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        before(kind, error, trace)
        if issubclass(kind, KeyboardInterrupt) or _of_process is None:
            return
        last = traceback.format_exception_only(kind, error)[-1].split("\n")[0]
        sys.stdout.flush()
        communicator.abort(f"ended by {last}; the job is aborted.")

    return hook


def destroy_process_group(group: Any = None) -> None:
    """End one group, or everything.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def ended():
    ...     dist.destroy_process_group()
    ...     return dist.is_initialized()
    >>> dist.threads.run(ended, 2)
    [False, False]
    """
    global _of_process
    world = current_world()
    if world is None:
        raise AssertionError("destroy_process_group(): there is no default process group.")
    if group is not None and group is not world.default:
        world.groups.remove(group)
        group.close()
        return
    world.close()
    if _of_thread.get() is not None:
        _of_thread.set(None)
    else:
        _of_process = None


def need_world() -> World:
    """The world of this rank; an error before there is one."""
    world = current_world()
    if world is None:
        raise errors.not_initialized()
    return world


def group_of(group: Any) -> ProcessGroup | None:
    """The group meant by an argument; None where this rank is no part of it."""
    if group is None:
        return need_world().default
    if isinstance(group, ProcessGroup):
        return group
    if isinstance(group, int) and group == GroupMember.NON_GROUP_MEMBER:
        return None
    if isinstance(group, str) and (named := _group_named(group)) is not None:
        return named
    raise TypeError(f"group= takes a ProcessGroup or None, got {type(group).__name__}.")


def _group_named(name: str) -> ProcessGroup | None:
    groups = need_world().groups
    for known in (*(g for g in groups if g.group_name == name), *groups):
        if name in (known.group_name, known.group_desc):
            return known
    return None


def get_rank(group: Any = None) -> int:
    """This rank's number in the group; -1 where it has no part.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> dist.threads.run(dist.get_rank, 3)
    [0, 1, 2]
    """
    known = group_of(group)
    return -1 if known is None else known.rank()


def get_world_size(group: Any = None) -> int:
    """How many ranks the group has; -1 where this one has no part.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> dist.threads.run(dist.get_world_size, 2)
    [2, 2]
    """
    known = group_of(group)
    return -1 if known is None else known.size()


def takes_devices() -> bool:
    """Whether tensors on devices are carried: if not so far, from now on, if that can be."""
    world = need_world()
    known = world.default.communicator
    if known.takes_devices or not known.may_be_staged:
        return known.takes_devices
    from pullback.distributed.engines.device_memory import over_devices

    for group in world.groups:
        group.communicator = over_devices(group.communicator)
    return True


def get_backend(group: Any = None) -> str:
    """The name of the engine as it was asked for.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> dist.threads.run(dist.get_backend, 1)
    ['threads']
    """
    known = group_of(group)
    if known is None:
        raise ValueError("get_backend(): this rank is not in the group.")
    return known.backend


def get_backend_config(group: Any = None) -> str:
    """Which back end serves which devices, in words.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> dist.threads.run(dist.get_backend_config, 1)
    ['cpu:threads,cuda:threads']
    """
    return repr(BackendConfig(get_backend(group)))


def get_pg_count() -> int:
    """How many groups there are.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> dist.threads.run(dist.get_pg_count, 1)
    [1]
    """
    world = current_world()
    return 0 if world is None else len(world.groups)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number among the ranks of this machine, as the launcher says it.

    >>> import pullback as torch
    >>> isinstance(torch.distributed.get_node_local_rank(fallback_rank=0), int)
    True
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise RuntimeError("LOCAL_RANK is not set; pass fallback_rank.")
    return int(fallback_rank)


def get_process_group_ranks(group: Any) -> list[int]:
    """The numbers of the group's ranks in the default group.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> dist.threads.run(lambda: dist.get_process_group_ranks(None), 2)[0]
    [0, 1]
    """
    known = group_of(group)
    return [] if known is None else list(known.ranks)


def get_group_rank(group: Any, global_rank: int) -> int:
    """The number in the group of a rank of the default group.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> dist.threads.run(lambda: dist.get_group_rank(dist.group.WORLD, 1), 2)
    [1, 1]
    """
    known = group_of(group)
    if known is None or global_rank not in known.ranks:
        raise ValueError(f"Rank {global_rank} is not in {known}.")
    return known.ranks.index(global_rank)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The number in the default group of a rank of the group.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> dist.threads.run(lambda: dist.get_global_rank(dist.new_group([0, 1]), 1), 2)
    [1, 1]
    """
    known = group_of(group)
    if known is None or not 0 <= group_rank < known.size():
        raise ValueError(f"{known} has no rank {group_rank}.")
    return known.ranks[group_rank]
