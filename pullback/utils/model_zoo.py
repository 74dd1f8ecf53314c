"""An old name of `torch.hub.load_state_dict_from_url`."""

from __future__ import annotations

from typing import Any

from pullback.core.explain.absent import absent as _absent
from pullback.core.listing import only_public as _only_public
from pullback.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]


def __getattr__(name: str) -> Any:
    if name != "tqdm":
        raise _absent(__name__, name)
    import pullback.hub

    return pullback.hub.tqdm


__dir__ = _only_public(globals())
