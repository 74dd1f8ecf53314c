"""The pipes whose items come one after the other."""

from __future__ import annotations

from pullback.core.listing import only_public as _only_public
from pullback.utils.data.datapipes.iter.callable import CollatorIterDataPipe as Collator
from pullback.utils.data.datapipes.iter.callable import MapperIterDataPipe as Mapper
from pullback.utils.data.datapipes.iter.combinatorics import SamplerIterDataPipe as Sampler
from pullback.utils.data.datapipes.iter.combinatorics import ShufflerIterDataPipe as Shuffler
from pullback.utils.data.datapipes.iter.combining import ConcaterIterDataPipe as Concater
from pullback.utils.data.datapipes.iter.combining import MultiplexerIterDataPipe as Multiplexer
from pullback.utils.data.datapipes.iter.combining import ZipperIterDataPipe as Zipper
from pullback.utils.data.datapipes.iter.filelister import FileListerIterDataPipe as FileLister
from pullback.utils.data.datapipes.iter.fileopener import FileOpenerIterDataPipe as FileOpener
from pullback.utils.data.datapipes.iter.grouping import BatcherIterDataPipe as Batcher
from pullback.utils.data.datapipes.iter.grouping import GrouperIterDataPipe as Grouper
from pullback.utils.data.datapipes.iter.grouping import UnBatcherIterDataPipe as UnBatcher
from pullback.utils.data.datapipes.iter.selecting import FilterIterDataPipe as Filter
from pullback.utils.data.datapipes.iter.sharding import ShardingFilterIterDataPipe as ShardingFilter
from pullback.utils.data.datapipes.iter.splitting import DemultiplexerIterDataPipe as Demultiplexer
from pullback.utils.data.datapipes.iter.splitting import ForkerIterDataPipe as Forker
from pullback.utils.data.datapipes.iter.streamreader import StreamReaderIterDataPipe as StreamReader
from pullback.utils.data.datapipes.iter.utils import IterableWrapperIterDataPipe as IterableWrapper

__all__ = [
    "Batcher",
    "Collator",
    "Concater",
    "Demultiplexer",
    "FileLister",
    "FileOpener",
    "Filter",
    "Forker",
    "Grouper",
    "IterableWrapper",
    "Mapper",
    "Multiplexer",
    "Sampler",
    "ShardingFilter",
    "Shuffler",
    "StreamReader",
    "UnBatcher",
    "Zipper",
]

__dir__ = _only_public(globals())
