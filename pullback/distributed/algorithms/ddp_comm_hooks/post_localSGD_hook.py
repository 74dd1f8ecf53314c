"""Local SGD: after some steps gradients stay in small groups, and models are averaged now and then.

The hook is one half; `optim.PostLocalSGDOptimizer` with a model averager is the other.
"""

from __future__ import annotations

from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from pullback.distributed.ddp.buckets import GradBucket
from pullback.futures import Future

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """When local steps begin, and over which groups gradients are averaged before and after.

    Args:
        process_group: all ranks; None is the default group.
        subgroup: those who still average their gradients afterwards, such as a machine's.
        start_localSGD_iter: how many steps come before.
        post_local_gradient_allreduce: False leaves gradients to each rank afterwards.
    """

    def __init__(
        self,
        process_group: Any,
        subgroup: Any,
        start_localSGD_iter: int,  # noqa: N803 (torch's name)
        post_local_gradient_allreduce: bool = True,
    ) -> None:
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count the step that ends with this bucket."""
        if bucket.is_last():
            self.iter += 1


def post_localSGD_hook(state: PostLocalSGDState, bucket: GradBucket) -> Future[Any]:  # noqa: N802 (torch's name)
    """Average over all ranks at first, then over the subgroup, or not at all."""
    local = state.iter >= state.start_localSGD_iter
    state.maybe_increase_iter(bucket)
    if not local:
        return allreduce_hook(state.process_group, bucket)
    if state.post_local_gradient_allreduce:
        return allreduce_hook(state.subgroup, bucket)
    future: Future[Any] = Future()
    future.set_result(bucket.buffer())
    return future


__dir__ = _only_public(globals())
