"""Distributed data parallel: every rank its batch, one gradient for all."""

from __future__ import annotations

from pullback.distributed.ddp.buckets import GradBucket
from pullback.distributed.ddp.module import DistributedDataParallel

__all__ = ["DistributedDataParallel", "GradBucket"]
