"""The pipe of the paths of files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from pullback.utils.data.datapipes.iter.utils import IterableWrapperIterDataPipe
from pullback.utils.data.datapipes.utils.common import get_file_pathnames_from_root, known_length

__all__ = ["FileListerIterDataPipe"]


@functional_datapipe("list_files")
class FileListerIterDataPipe(IterDataPipe[str]):
    """Paths of the files below folders, of those whose name fits a mask.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from pullback.utils.data.datapipes.iter import FileLister
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.txt").write_text("abc")
    ...     [path[-5:] for path in FileLister(folder, "*.txt")]
    ['a.txt']
    """

    def __init__(
        self,
        root: Any = ".",
        masks: str | list[str] = "",
        *,
        recursive: bool = False,
        abspath: bool = False,
        non_deterministic: bool = False,
        length: int = -1,
    ) -> None:
        roots = [root] if isinstance(root, str) else root
        if not isinstance(roots, IterDataPipe):
            roots = IterableWrapperIterDataPipe(roots)
        self.datapipe = roots
        self.masks, self.recursive, self.abspath = masks, recursive, abspath
        self.non_deterministic, self.length = non_deterministic, length

    def __iter__(self) -> Iterator[str]:
        for folder in self.datapipe:
            yield from get_file_pathnames_from_root(
                folder, self.masks, self.recursive, self.abspath, self.non_deterministic
            )

    def __len__(self) -> int:
        return known_length(self, self.length)


__dir__ = _only_public(globals())
