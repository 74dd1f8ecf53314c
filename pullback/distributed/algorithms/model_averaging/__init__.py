"""Models that train apart, and are averaged now and then."""

from pullback.core.listing import only_public as _only_public
from pullback.distributed.algorithms.model_averaging import averagers, utils

__all__: list[str] = []
__dir__ = _only_public(globals(), "averagers utils")
