"""DataLoader: batches of a dataset, made here or by worker processes."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.context import BaseContext
from typing import Any, Generic, TypeVar

from pullback.core.listing import only_public as _only_public
from pullback.operators.random.generator import Generator
from pullback.utils.data._utils.collate import default_collate, default_convert
from pullback.utils.data._utils.worker import get_worker_info
from pullback.utils.data.datapipes.datapipe import IterDataPipe
from pullback.utils.data.dataset import IterableDataset
from pullback.utils.data.graph_settings import apply_shuffle_settings
from pullback.utils.data.iterators import BaseIterator, SingleProcessIterator
from pullback.utils.data.pipes import is_pipe
from pullback.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from pullback.utils.data.workers import WorkersIterator

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

T_co = TypeVar("T_co", covariant=True)
_PREFETCH = 2
_collate_fn_t = Callable[[list[Any]], Any]  # torch's name for what collates
_FIXED = frozenset(
    ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
)


# Names that libraries check for.
_BaseDataLoaderIter = BaseIterator
_SingleProcessDataLoaderIter = SingleProcessIterator
_MultiProcessingDataLoaderIter = WorkersIterator


class _DatasetKind:
    """The two kinds of datasets, under torch's names."""

    Map = 0
    Iterable = 1


class _InfiniteConstantSampler(Sampler[None]):
    """For iterable datasets: no place, for ever."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class DataLoader(Generic[T_co]):
    """Iterate over a dataset in batches, optionally shuffled, optionally with worker processes.

    Workers exit with the iterator, even if it is dropped early, and if this process dies.

    Args:
        dataset: Dataset with `__getitem__` and `__len__`, or an `IterableDataset`.
        batch_size: Examples in a batch; None gives single examples, not collated.
        shuffle: Whether to draw in a new random order each epoch.
        sampler: Indices to draw, in their order; instead of `shuffle`.
        batch_sampler: Lists of indices, one for each batch; instead of `batch_size`, `shuffle`,
            `sampler` and `drop_last`.
        num_workers: Worker processes that load batches ahead; 0 loads in this one.
        collate_fn: Function that makes a batch of a list of examples; stacks tensors if not given.
        pin_memory: Whether batches are put in page-locked memory; no effect without an accelerator.
        drop_last: Whether to leave out a last batch that is not full.
        timeout: Seconds to wait for a worker's batch; 0 waits for ever.
        worker_init_fn: Function called in each worker with its number.
        multiprocessing_context: How to start workers, such as "spawn".
        generator: Source of the shuffle's and the workers' seeds.
        prefetch_factor: Batches that each worker loads ahead; 2 if not given.
        persistent_workers: Whether workers stay for the next epoch.
        pin_memory_device: Device that memory is pinned for.
        in_order: Whether batches come in the sampler's order, not as workers finish.

    Example:
        >>> import pullback as torch
        >>> from pullback.utils.data import DataLoader, TensorDataset
        >>> dataset = TensorDataset(torch.arange(5))
        >>> for (batch,) in DataLoader(dataset, batch_size=2):
        ...     print(batch)
        tensor([0, 1])
        tensor([2, 3])
        tensor([4])
    """

    _iterator: BaseIterator | None = None
    _initialized = False
    # How many batches of an iterable dataset somebody was told that there are; more are a surprise.
    _told_length: int | None = None

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        if num_workers and not _has_processes():
            warnings.warn(
                "DataLoader: no processes can be started here, so the batches are made in this "
                "one, as by num_workers=0.",
                UserWarning,
                stacklevel=2,
            )
            num_workers, timeout, prefetch_factor, persistent_workers = 0, 0, None, False
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor or (_PREFETCH if num_workers else None)
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self.generator = generator
        self.persistent_workers = persistent_workers
        self._dataset_kind = (
            _DatasetKind.Iterable if isinstance(dataset, IterableDataset) else _DatasetKind.Map
        )
        if isinstance(dataset, IterDataPipe):
            self.dataset = apply_shuffle_settings(dataset, shuffle)
            shuffle = None
        if self._is_iterable:
            _check_iterable(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError("DataLoader: a sampler says the order itself; leave out shuffle.")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "DataLoader: a batch_sampler makes the batches itself; leave out batch_size, "
                    "shuffle, sampler and drop_last."
                )
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError(
                "DataLoader: batch_size=None makes no batches, so none can be dropped; leave out "
                "drop_last."
            )
        if sampler is None:
            sampler = self._own_sampler(bool(shuffle))
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler: Any = sampler
        self.batch_sampler: Any = batch_sampler
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self._initialized = True
        self.check_worker_number_rationality()

    def _own_sampler(self, shuffle: bool) -> Sampler[Any]:
        if self._is_iterable:
            return _InfiniteConstantSampler()
        if shuffle:
            return RandomSampler(self.dataset, generator=self.generator)
        return SequentialSampler(self.dataset)

    # What it is ---------------------------------------------------------------------------------

    @property
    def _is_iterable(self) -> bool:
        return self._dataset_kind == _DatasetKind.Iterable

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    @property
    def multiprocessing_context(self) -> Any:
        """How worker processes are started; None for Python's default."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        self._context = None if context is None else _context_of(context, self.num_workers)

    def __setattr__(self, name: str, value: Any) -> None:
        if self._initialized and name in _FIXED:
            raise ValueError(f"DataLoader: {name} cannot change any more; make another loader.")
        super().__setattr__(name, value)

    def __len__(self) -> int:
        if not self._is_iterable:
            return len(self._index_sampler)
        length = len(self.dataset)
        if self.batch_size is not None:
            rest = 0 if self.drop_last else self.batch_size - 1
            length = (length + rest) // self.batch_size
        if not is_pipe(self.dataset):  # workers' parts of a pipe fill their last batches each
            self._told_length = length
        return length

    def check_worker_number_rationality(self) -> None:
        """Warn if there are more workers than processors."""
        processors = _processors()
        if processors is not None and self.num_workers > processors:
            warnings.warn(
                f"DataLoader: {self.num_workers} workers share {processors} processors; more than "
                "one each makes loading slower, not faster.",
                UserWarning,
                stacklevel=3,
            )

    # Iterating ----------------------------------------------------------------------------------

    def _get_iterator(self) -> BaseIterator:
        if self.num_workers == 0:
            return SingleProcessIterator(self)
        self.check_worker_number_rationality()
        return WorkersIterator(self)

    def __iter__(self) -> Iterator[Any]:
        if not self.persistent_workers or self.num_workers == 0:
            return self._get_iterator()
        known = self._iterator
        if isinstance(known, WorkersIterator) and known.is_alive():
            known._again(self)
            return known
        self._iterator = made = self._get_iterator()
        return made


def _has_processes() -> bool:
    """Whether there are processes beside this one; in a browser there are not."""
    return sys.platform not in ("emscripten", "wasi")


def _processors() -> int | None:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> None:
    if num_workers < 0:
        raise ValueError(f"DataLoader: num_workers must be 0 or more, got {num_workers}.")
    if timeout < 0:
        raise ValueError(f"DataLoader: timeout must be 0 or more seconds, got {timeout}.")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "DataLoader: prefetch_factor is for workers; set num_workers, or leave it."
        )
    if prefetch_factor is not None and prefetch_factor < 1:
        raise ValueError(f"DataLoader: prefetch_factor must be positive, got {prefetch_factor}.")
    if persistent_workers and num_workers == 0:
        raise ValueError("DataLoader: persistent_workers needs num_workers > 0.")


def _check_iterable(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    """The dataset says the order."""
    given = {"shuffle": shuffle, "sampler": sampler, "batch_sampler": batch_sampler}
    for name, value in given.items():
        if value is not None and value is not False:
            raise ValueError(
                f"DataLoader: an IterableDataset says the order itself; leave out {name}."
            )


def _context_of(context: Any, num_workers: int) -> Any:
    if num_workers == 0:
        raise ValueError("DataLoader: multiprocessing_context needs num_workers > 0.")
    if isinstance(context, str):
        known = multiprocessing.get_all_start_methods()
        if context not in known:
            raise ValueError(
                f"DataLoader: {context!r} is no way to start processes here; use one of {known}."
            )
        return multiprocessing.get_context(context)
    if not isinstance(context, BaseContext):
        raise TypeError(
            "DataLoader: multiprocessing_context must be a context or the name of a start method, "
            f"got {type(context).__name__}."
        )
    return context


__dir__ = _only_public(globals())
