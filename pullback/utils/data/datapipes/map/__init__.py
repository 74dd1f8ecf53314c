"""The pipes whose items have keys."""

from pullback.utils.data.datapipes.map.callable import MapperMapDataPipe as Mapper
from pullback.utils.data.datapipes.map.combinatorics import ShufflerIterDataPipe as Shuffler
from pullback.utils.data.datapipes.map.combining import ConcaterMapDataPipe as Concater
from pullback.utils.data.datapipes.map.combining import ZipperMapDataPipe as Zipper
from pullback.utils.data.datapipes.map.grouping import BatcherMapDataPipe as Batcher
from pullback.utils.data.datapipes.map.utils import SequenceWrapperMapDataPipe as SequenceWrapper

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]
