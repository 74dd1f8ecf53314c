"""What is built on collectives: uneven inputs, hooks that compress gradients, averaged models."""

from pullback.core.listing import only_public as _only_public
from pullback.distributed.algorithms.join import Join, Joinable, JoinHook

__all__: list[str] = ["Join", "JoinHook", "Joinable"]
__dir__ = _only_public(globals(), "ddp_comm_hooks join model_averaging")
