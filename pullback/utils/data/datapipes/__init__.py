"""Data pipes: datasets that are chained by methods, `source.map(f).filter(g).shuffle().batch(8)`.

torch develops them no further, and neither do we; a new program is better off with an
`IterableDataset`. What is not here: `RoutedDecoder`, and pipes of data frames.
"""

from __future__ import annotations

from pullback.core.listing import only_public as _only_public
from pullback.utils.data.datapipes import datapipe, iter, map

__all__ = ["datapipe", "iter", "map"]

__dir__ = _only_public(globals())
