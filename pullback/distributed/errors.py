"""What goes wrong between ranks. Every message says which rank speaks, and about which call."""

from __future__ import annotations

from pullback.installed import install_command

__all__ = [
    *("DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "QueueEmptyError"),
    "RankErrors",
]


class DistError(RuntimeError):
    """Something between ranks failed.

    >>> import pullback as torch
    >>> issubclass(torch.distributed.DistError, RuntimeError)
    True
    """


class DistBackendError(DistError):
    """A collective failed: ranks did not agree, did not come, or died.

    >>> import pullback as torch
    >>> issubclass(torch.distributed.DistBackendError, torch.distributed.DistError)
    True
    """


class DistNetworkError(DistError):
    """A connection could not be made or was lost.

    >>> import pullback as torch
    >>> issubclass(torch.distributed.DistNetworkError, torch.distributed.DistError)
    True
    """


class DistStoreError(DistError):
    """A store did not answer, or did not know a key in time.

    >>> import pullback as torch
    >>> issubclass(torch.distributed.DistStoreError, torch.distributed.DistError)
    True
    """


class QueueEmptyError(DistStoreError):
    """A queue of a store had no value for who would not wait.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> try:
    ...     dist.HashStore().queue_pop("work", block=False)
    ... except dist.QueueEmptyError as error:
    ...     print(error)
    queue_pop: 'work' is empty.
    """


class RankErrors(DistError):
    """What each rank died of; `errors` has the exceptions by rank.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> try:
    ...     dist.threads.run(lambda: 1 / dist.get_rank(), 2)
    ... except dist.RankErrors as error:
    ...     error.first, type(error.errors[0]).__name__
    (0, 'ZeroDivisionError')
    """

    def __init__(self, errors: dict[int, BaseException], first: int) -> None:
        self.errors = errors
        self.first = first
        lines = [
            f"  rank {rank}: {type(error).__name__}: {error}"
            for rank, error in sorted(errors.items())
        ]
        super().__init__(f"{len(errors)} rank(s) failed, rank {first} first:\n" + "\n".join(lines))


def not_initialized() -> ValueError:
    """A question about the default group before there is one."""
    return ValueError(
        "There is no default process group yet: call init_process_group() first, or run the "
        "function with pullback.distributed.threads.run()."
    )


def missing_engine(name: str, packages: str) -> ImportError:
    """An engine whose packages are not installed."""
    return ImportError(
        f"The {name!r} engine needs {' and '.join(packages.split())}: {install_command(packages)}."
    )


def missing_workers(number: int, size: int) -> DistNetworkError:
    """A worker of a job that did not come to where all meet."""
    return DistNetworkError(f"init_rpc: worker {number} of {size} did not come in time.")
