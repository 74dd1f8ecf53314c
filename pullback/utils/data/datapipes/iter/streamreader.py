"""The pipe of what streams hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe

__all__ = ["StreamReaderIterDataPipe"]


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe[tuple[str, Any]]):
    """Each path with what is read from its stream, as a whole or in parts of one size.

    >>> import io
    >>> from pullback.utils.data.datapipes.iter import StreamReader
    >>> list(StreamReader([("a.txt", io.StringIO("abc"))], chunk=2))
    [('a.txt', 'ab'), ('a.txt', 'c')]
    """

    def __init__(self, datapipe: Any, chunk: int | None = None) -> None:
        self.datapipe, self.chunk = datapipe, chunk

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for path, stream in self.datapipe:
            while part := stream.read(self.chunk):
                yield path, part
            stream.close()


__dir__ = _only_public(globals())
