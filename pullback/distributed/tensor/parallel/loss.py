"""`loss_parallel`: cross entropy of scores whose classes are shared out over ranks.

Our rules never gather such scores, inside of this or outside; inside, targets may be plain tensors
that all ranks have alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pullback.distributed.tensor.implicit import implicit_replication

__all__ = ["loss_parallel"]


@contextmanager
def loss_parallel() -> Iterator[None]:
    """Compute cross entropy of scores in parts; both passes are to be inside.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.tensor import Shard, distribute_tensor
    >>> from pullback.distributed.tensor.parallel import loss_parallel
    >>> def loss():
    ...     mesh = dist.init_device_mesh("cpu", (2,))
    ...     scores = distribute_tensor(torch.eye(2, 4), mesh, [Shard(1)]).requires_grad_()
    ...     with loss_parallel():
    ...         made = torch.nn.functional.cross_entropy(scores, torch.tensor([0, 1]))
    ...         made.backward()
    ...     return round(made.full_tensor().item(), 4), scores.grad.placements
    >>> dist.threads.run(loss, 2)[0]
    (0.7437, (Shard(dim=1),))
    """
    with implicit_replication():
        yield
