"""Hooks that average buckets as they are, or in half precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pullback
from pullback.core.listing import only_public as _only_public
from pullback.distributed import collectives
from pullback.distributed.ddp.buckets import GradBucket
from pullback.distributed.group import Work
from pullback.distributed.world import group_of
from pullback.futures import Future

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]

Hook = Callable[[Any, GradBucket], Future[Any]]


def average(process_group: Any, tensor: Any) -> Future[Any]:
    """A future of the mean of a tensor over the group, in its own memory."""
    group = group_of(process_group)
    assert group is not None
    tensor.div_(group.size())
    work: Work = collectives.all_reduce(tensor, group=group, async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """The mean, as without a hook."""
    return average(process_group, bucket.buffer())


def _compressed(dtype: Any, process_group: Any, bucket: GradBucket) -> Future[Any]:
    """The mean of numbers rounded to `dtype`, half as many bytes or fewer."""
    buffer = bucket.buffer()
    sent = average(process_group, buffer.to(dtype))
    return sent.then(lambda done: buffer.copy_(done.value()))


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """The mean of gradients rounded to float16."""
    return _compressed(pullback.float16, process_group, bucket)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """The mean of gradients rounded to bfloat16."""
    return _compressed(pullback.bfloat16, process_group, bucket)


def _wrapped(dtype: Any, hook: Hook) -> Hook:
    def compressed(state: Any, bucket: GradBucket) -> Future[Any]:
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(dtype))
        return hook(state, bucket).then(lambda done: buffer.copy_(done.value()))

    return compressed


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """The hook, on gradients rounded to float16."""
    return _wrapped(pullback.float16, hook)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """The hook, on gradients rounded to bfloat16."""
    return _wrapped(pullback.bfloat16, hook)


__dir__ = _only_public(globals())
