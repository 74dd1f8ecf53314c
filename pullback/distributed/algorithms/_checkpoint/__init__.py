"""`torch.distributed.algorithms._checkpoint`: modules whose activations are computed again."""

from __future__ import annotations
