"""Samplers: in which order a loader asks for the items of a dataset."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.operators.random.generator import Generator

__all__ = [
    *("BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler"),
    "WeightedRandomSampler",
]

T_co = TypeVar("T_co", covariant=True)
_CHUNK = 32  # random places drawn at a time, torch's number: the stream of draws depends on it


class Sampler(Generic[T_co]):
    """Gives places in a dataset, or lists of them; subclasses write `__iter__` and `__len__`.

    >>> import pullback as torch
    >>> class Backwards(torch.utils.data.Sampler):
    ...     def __init__(self, data):
    ...         self.data = data
    ...
    ...     def __iter__(self):
    ...         return iter(range(len(self.data))[::-1])
    ...
    ...     def __len__(self):
    ...         return len(self.data)
    >>> list(torch.utils.data.DataLoader("abc", batch_size=2, sampler=Backwards("abc")))
    [['c', 'b'], ['a']]
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__; define it.")


class SequentialSampler(Sampler[int]):
    """All places in order.

    >>> import pullback as torch
    >>> list(torch.utils.data.SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


def fresh_seed(generator: Generator | None = None) -> int:
    """A number of 63 bits from a stream, for another stream to start from."""
    from pullback.operators.create.sizes import empty

    drawn: Any = empty((), dtype=_int64())
    return int(drawn.random_(generator=generator).item())


def _int64() -> Any:
    from pullback.core.dtype import int64

    return int64


def _check_flag(where: str, name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{where}: {name} must be True or False, got {value!r}.")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


class RandomSampler(Sampler[int]):
    """Places by chance: a permutation (several, if `num_samples` wants more), or with repetition.

    Example:
        >>> import pullback as torch
        >>> from pullback.utils.data import RandomSampler
        >>> sorted(RandomSampler("abcd", generator=torch.Generator().manual_seed(0)))
        [0, 1, 2, 3]
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        _check_flag("RandomSampler", "replacement", replacement)
        if not _is_count(self.num_samples):
            raise ValueError(
                f"RandomSampler: num_samples must be a positive int, got {self.num_samples!r}."
            )

    @property
    def num_samples(self) -> int:
        """How many places it gives; the length of the dataset unless told otherwise."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        from pullback.operators.random.tensors import randint, randperm

        count = len(self.data_source)
        generator = self.generator
        if generator is None:
            generator = Generator()
            generator.manual_seed(fresh_seed())
        wanted = self.num_samples
        if self.replacement:
            for start in range(0, wanted, _CHUNK):
                size = (min(_CHUNK, wanted - start),)
                drawn: Any = randint(high=count, size=size, dtype=_int64(), generator=generator)
                yield from drawn.tolist()
            return
        for _ in range(wanted // count):
            yield from randperm(count, generator=generator).tolist()
        # Drawn even where nothing of it is needed, as torch does: the stream goes on from there.
        yield from randperm(count, generator=generator).tolist()[: wanted % count]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Given places, in an order by chance.

    >>> import pullback as torch
    >>> sorted(torch.utils.data.SubsetRandomSampler([3, 5]))
    [3, 5]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        from pullback.operators.random.tensors import randperm

        for place in randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[place]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Places from 0 on, each as likely as its weight; the weights need not add up to 1.

    >>> import pullback as torch
    >>> list(torch.utils.data.WeightedRandomSampler([0.0, 1.0], 3))
    [1, 1, 1]
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        from pullback.core.dtype import float64
        from pullback.operators.create.data import as_tensor

        if not _is_count(num_samples):
            raise ValueError(
                f"WeightedRandomSampler: num_samples must be a positive int, got {num_samples!r}."
            )
        if not isinstance(replacement, bool):
            raise ValueError(
                f"WeightedRandomSampler: replacement must be True or False, got {replacement!r}."
            )
        weighed: Tensor = as_tensor(weights, dtype=float64)
        if len(weighed.shape) != 1:
            raise ValueError(
                f"WeightedRandomSampler: weights must be 1-d, got shape {tuple(weighed.shape)}."
            )
        self.weights = weighed
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        from pullback.operators.random.draws import multinomial

        drawn = multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        yield from iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` places from another sampler; the last may be shorter, or dropped.

    Example:
        >>> from pullback.utils.data import BatchSampler
        >>> list(BatchSampler(range(5), batch_size=2, drop_last=False))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        if not _is_count(batch_size):
            raise ValueError(
                f"BatchSampler: batch_size must be a positive int, got {batch_size!r}."
            )
        if not isinstance(drop_last, bool):
            raise ValueError(f"BatchSampler: drop_last must be True or False, got {drop_last!r}.")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        places = iter(self.sampler)
        while batch := list(itertools.islice(places, self.batch_size)):
            if self.drop_last and len(batch) < self.batch_size:
                return
            yield batch

    def __len__(self) -> int:
        length = len(self.sampler)  # type: ignore[arg-type]  # its error is the user's answer
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)


__dir__ = _only_public(globals())
