"""The functions behind `nn.functional`, under the name of torch's private module.

Torch has only some of them here; whatever `nn.functional` has is found.
"""

from __future__ import annotations

from typing import Any

from pullback.nn import functional

_BY_HAND = {"log_sigmoid": "logsigmoid", "pad": "pad"}


def __getattr__(name: str) -> Any:
    found = getattr(functional, _BY_HAND.get(name, name), None)
    if found is None or name.startswith("__"):
        raise AttributeError(f"module 'pullback._C._nn' has no attribute {name!r}")
    return found
