"""Datasets, samplers and loaders, under torch's names.

>>> from pullback.utils.data import DataLoader
>>> [batch.tolist() for batch in DataLoader(range(3), batch_size=2)]
[[0, 1], [2]]
"""

from __future__ import annotations

from pullback.core.explain.absent import refuse_others
from pullback.core.listing import only_public as _only_public
from pullback.utils.data._utils.worker import get_worker_info
from pullback.utils.data.dataloader import (
    DataLoader,
    _DatasetKind,
    default_collate,
    default_convert,
)
from pullback.utils.data.datapipes import iter as _iter  # noqa: F401  # makes the pipes' methods
from pullback.utils.data.datapipes import map as _map  # noqa: F401
from pullback.utils.data.datapipes._decorator import (
    functional_datapipe,
    guaranteed_datapipes_determinism,
    non_deterministic,
)
from pullback.utils.data.datapipes.datapipe import DataChunk, IterDataPipe, MapDataPipe
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
    "DataChunk",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterDataPipe",
    "IterableDataset",
    "MapDataPipe",
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
    "functional_datapipe",
    "get_worker_info",
    "guaranteed_datapipes_determinism",
    "non_deterministic",
    "random_split",
]

refuse_others(globals())

__dir__ = _only_public(
    globals(), "dataloader datapipes dataset distributed graph graph_settings sampler"
)
