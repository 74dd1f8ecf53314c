"""The pipe of opened files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from pullback.utils.data.datapipes.utils.common import (
    get_file_binaries_from_pathnames,
    known_length,
)

__all__ = ["FileOpenerIterDataPipe"]


@functional_datapipe("open_files")
class FileOpenerIterDataPipe(IterDataPipe[tuple[str, Any]]):
    """Each path with its file, opened to be read; closed when nobody holds it any more.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from pullback.utils.data.datapipes.iter import FileOpener
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.txt").write_text("abc")
    ...     [file.read() for _, file in FileOpener([f"{folder}/a.txt"])]
    ['abc']
    """

    def __init__(
        self,
        datapipe: Iterable[str],
        mode: str = "r",
        encoding: str | None = None,
        length: int = -1,
    ) -> None:
        if mode not in ("b", "t", "rb", "rt", "r"):
            raise ValueError(f"open_files: mode is 'r', 'rt', 'rb', 't' or 'b', got {mode!r}.")
        if "b" in mode and encoding is not None:
            raise ValueError("open_files: bytes have no encoding; leave it out, or use mode='r'.")
        self.datapipe, self.mode, self.encoding, self.length = datapipe, mode, encoding, length

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        yield from get_file_binaries_from_pathnames(self.datapipe, self.mode, self.encoding)

    def __len__(self) -> int:
        return known_length(self, self.length)


__dir__ = _only_public(globals())
