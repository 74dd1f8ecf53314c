"""Datasets, samplers and loaders, under torch's names.

>>> from pullback.utils.data import DataLoader
>>> [batch.tolist() for batch in DataLoader(range(3), batch_size=2)]
[[0, 1], [2]]
"""

from __future__ import annotations

from typing import Any

from pullback.utils.data._utils.worker import get_worker_info
from pullback.utils.data.dataloader import (
    DataLoader,
    _DatasetKind,
    default_collate,
    default_convert,
)
from pullback.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from pullback.utils.data.distributed import DistributedSampler
from pullback.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "_DatasetKind",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]

_PIPES = {
    *("DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe", "argument_validation"),
    *("datapipes", "functional_datapipe", "graph", "graph_settings", "non_deterministic"),
    *("guaranteed_datapipes_determinism", "runtime_validation", "runtime_validation_disabled"),
}


def __getattr__(name: str) -> Any:
    if name in _PIPES:
        raise AttributeError(
            f"pullback.utils.data has no {name}: torch develops datapipes no further, so they are "
            "left out. Write an IterableDataset instead."
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
