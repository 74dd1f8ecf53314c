"""Data pipes: datasets that are chained by methods, `source.map(f).filter(g).shuffle().batch(8)`.

torch develops them no further, and neither do we; a new program is better off with an
`IterableDataset`. What is not here: `RoutedDecoder`, and pipes of data frames.
"""

from pullback.utils.data.datapipes import datapipe, iter, map

__all__ = ["datapipe", "iter", "map"]
