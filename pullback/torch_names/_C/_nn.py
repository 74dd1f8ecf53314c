"""The functions behind `nn.functional`, under the name of torch's private module.

Torch has only some of them here; whatever `nn.functional` has is found.
"""

from __future__ import annotations

from typing import Any

from pullback.library.builtin.losses import LOSSES
from pullback.nn import functional
from pullback.nn.base.conversion import destination

_BY_HAND = {"log_sigmoid": "logsigmoid", "pad": "pad"}


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """What the arguments of `to` mean: device, dtype, whether not to wait, and memory format."""
    place, kind, options = destination(args, kwargs)
    return place, kind, bool(options.get("non_blocking")), options.get("memory_format")


def __getattr__(name: str) -> Any:
    if name in LOSSES:
        return LOSSES[name][1]
    found = getattr(functional, _BY_HAND.get(name, name), None)
    if found is None or name.startswith("__"):
        raise AttributeError(f"module 'pullback._C._nn' has no attribute {name!r}")
    return found
