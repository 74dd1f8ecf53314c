"""What is built on collectives: uneven inputs, and hooks that compress gradients."""

from pullback.core.listing import only_public as _only_public

__all__: list[str] = []
__dir__ = _only_public(globals(), "ddp_comm_hooks join")
