"""The pipes whose items have keys."""

from __future__ import annotations

from pullback.core.listing import only_public as _only_public
from pullback.utils.data.datapipes.map.callable import MapperMapDataPipe as Mapper
from pullback.utils.data.datapipes.map.combinatorics import ShufflerIterDataPipe as Shuffler
from pullback.utils.data.datapipes.map.combining import ConcaterMapDataPipe as Concater
from pullback.utils.data.datapipes.map.combining import ZipperMapDataPipe as Zipper
from pullback.utils.data.datapipes.map.grouping import BatcherMapDataPipe as Batcher
from pullback.utils.data.datapipes.map.utils import SequenceWrapperMapDataPipe as SequenceWrapper

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]

__dir__ = _only_public(globals())
