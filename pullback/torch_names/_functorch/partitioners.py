"""Torch's place for what cuts a joint graph in two; it is in compiled/aot."""

from pullback.compiled.partition.partitioners import (
    default_partition,
    min_cut_rematerialization_partition,
)

__all__ = ["default_partition", "min_cut_rematerialization_partition"]
