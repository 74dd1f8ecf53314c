"""Datasets: something with a length and items, or something to iterate over."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.operators.random.generator import Generator, default_generator

__all__ = [
    *("ChainDataset", "ConcatDataset", "Dataset", "IterableDataset", "StackDataset", "Subset"),
    *("TensorDataset", "random_split"),
]

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Examples by index: subclasses define `__getitem__`, and `__len__` for samplers.

    A `__getitems__(indices)` that returns a list of items is used for whole batches.

    Example:
        >>> from pullback.utils.data import Dataset
        >>> class Squares(Dataset):
        ...     def __len__(self):
        ...         return 3
        ...     def __getitem__(self, index):
        ...         return index**2
        >>> (Squares() + Squares())[4]
        1
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__; define it.")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """Items one after the other: subclasses write `__iter__`.

    With several workers each has a copy of the dataset; `get_worker_info()` tells `__iter__` which
    part to give, else every item comes once per worker.

    >>> import pullback as torch
    >>> class Squares(torch.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return (n * n for n in range(4))
    >>> list(torch.utils.data.DataLoader(Squares(), batch_size=2))
    [tensor([0, 1]), tensor([4, 9])]
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__; define it.")

    def __add__(self, other: Dataset[Any]) -> ChainDataset:  # type: ignore[override]  # as torch
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Rows of several tensors of the same length.

    Example:
        >>> import pullback as torch
        >>> from pullback.utils.data import TensorDataset
        >>> TensorDataset(torch.arange(3), torch.arange(3) * 10)[1]
        (tensor(1), tensor(10))
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensor.size(0) != tensors[0].size(0) for tensor in tensors):
            lengths = [tensor.size(0) for tensor in tensors]
            raise AssertionError(
                f"TensorDataset: the tensors have lengths {lengths}; make them equal."
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([tensor[index] for tensor in self.tensors])

    def __len__(self) -> int:
        return int(self.tensors[0].size(0))


class StackDataset(Dataset[Any]):
    """Several datasets of the same length side by side: tuples, or dicts if they have names.

    Example:
        >>> from pullback.utils.data import StackDataset
        >>> StackDataset(image=["a", "b"], label=[0, 1])[1]
        {'image': 'b', 'label': 1}
    """

    datasets: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError("StackDataset: give datasets by position or by name, not both.")
        if not args and not kwargs:
            raise ValueError("StackDataset: give at least one dataset.")
        parts = list(args or kwargs.values())
        self._length = len(parts[0])
        if any(len(part) != self._length for part in parts):
            raise ValueError(
                f"StackDataset: lengths {[len(p) for p in parts]} differ; make them equal."
            )
        self.datasets = args or kwargs

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple([dataset[index] for dataset in self.datasets])

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        if isinstance(self.datasets, dict):
            columns = [items_of(part, indices) for part in self.datasets.values()]
            rows = zip(*columns, strict=True)
            return [dict(zip(self.datasets, row, strict=True)) for row in rows]
        return list(zip(*[items_of(part, indices) for part in self.datasets], strict=True))

    def __len__(self) -> int:
        return self._length


def items_of(dataset: Any, indices: Sequence[Any]) -> list[Any]:
    """The items at these places, in one call where the dataset has one for that."""
    together = getattr(dataset, "__getitems__", None)
    if not callable(together):
        return [dataset[index] for index in indices]
    items: list[Any] = together(indices)
    if len(items) != len(indices):
        raise ValueError(
            f"{type(dataset).__name__}.__getitems__ gave {len(items)} items for {len(indices)} "
            "indices; it must give one for each."
        )
    return items


class ConcatDataset(Dataset[T_co]):
    """Datasets one after the other, as one.

    Example:
        >>> from pullback.utils.data import ConcatDataset
        >>> joined = ConcatDataset([[1, 2], [3]])
        >>> len(joined), joined[2], joined[-3]
        (3, 3, 1)
    """

    datasets: list[Dataset[T_co]]
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Where each dataset ends."""
        return list(itertools.accumulate(len(part) for part in sequence))

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("ConcatDataset: give at least one dataset.")
        if any(isinstance(part, IterableDataset) for part in self.datasets):
            raise AssertionError(
                "ConcatDataset: an IterableDataset has no numbered items; use ChainDataset."
            )
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> T_co:
        place = idx + len(self) if idx < 0 else idx
        if place < 0:
            raise ValueError(f"ConcatDataset: {idx} is before the first of {len(self)} items.")
        part = bisect.bisect_right(self.cumulative_sizes, place)
        before = self.cumulative_sizes[part - 1] if part else 0
        return self.datasets[part][place - before]

    @property
    def cummulative_sizes(self) -> list[int]:
        """An old spelling of `cumulative_sizes`."""
        warnings.warn(
            "cummulative_sizes is an old spelling; use cumulative_sizes.",
            FutureWarning,
            stacklevel=2,
        )
        return self.cumulative_sizes


class ChainDataset(IterableDataset[Any]):
    """Iterable datasets one after the other.

    >>> import pullback as torch
    >>> class Below(torch.utils.data.IterableDataset):
    ...     def __init__(self, n):
    ...         self.n = n
    ...
    ...     def __iter__(self):
    ...         return iter(range(self.n))
    >>> list(torch.utils.data.ChainDataset([Below(2), Below(3)]))
    [0, 1, 0, 1, 2]
    """

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        super().__init__()
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            yield from self._checked(dataset)

    def __len__(self) -> int:
        return sum(len(self._checked(dataset)) for dataset in self.datasets)

    @staticmethod
    def _checked(dataset: Any) -> Any:
        if not isinstance(dataset, IterableDataset):
            raise AssertionError(
                f"ChainDataset: {type(dataset).__name__} is no IterableDataset; use ConcatDataset."
            )
        return dataset


class Subset(Dataset[T_co]):
    """The items of a dataset at some places.

    >>> import pullback as torch
    >>> list(torch.utils.data.Subset("abcd", [0, 2]))
    ['a', 'c']
    """

    dataset: Any
    indices: Sequence[int]

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        places = [self.indices[index] for index in indices]
        together = getattr(self.dataset, "__getitems__", None)
        return together(places) if callable(together) else [self.dataset[p] for p in places]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[int | float], generator: Generator | None = default_generator
) -> list[Subset[Any]]:
    """Split a dataset randomly into parts of the given lengths, or fractions that sum to 1.

    Examples left over by fractions go to the parts one by one, from the first on.

    Example:
        >>> from pullback.utils.data import random_split
        >>> [len(part) for part in random_split(range(10), [0.3, 0.3, 0.4])]
        [3, 3, 4]
        >>> [len(part) for part in random_split(range(10), [0.33, 0.33, 0.34])]
        [4, 3, 3]
    """
    from pullback.operators.random.tensors import randperm

    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _lengths_of_fractions(len(dataset), lengths)
    if sum(lengths) != len(dataset):
        raise ValueError(
            f"random_split: the lengths {list(lengths)} add up to {sum(lengths)}, the dataset has "
            f"{len(dataset)} items."
        )
    order = randperm(int(sum(lengths)), generator=generator).tolist()
    ends = itertools.accumulate(lengths)
    return [
        Subset(dataset, order[int(end - length) : int(end)])
        for end, length in zip(ends, lengths, strict=True)
    ]


def _lengths_of_fractions(total: int, fractions: Sequence[float]) -> list[int]:
    for number, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"random_split: fraction {number} is {fraction}, not between 0 and 1.")
    lengths = [math.floor(total * fraction) for fraction in fractions]
    for number in range(total - sum(lengths)):
        lengths[number % len(lengths)] += 1
    for number, length in enumerate(lengths):
        if length == 0:
            warnings.warn(
                f"random_split: part {number} has no items; its fraction is too small.",
                UserWarning,
                stacklevel=3,
            )
    return lengths


__dir__ = _only_public(globals())
