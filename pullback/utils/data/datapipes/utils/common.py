"""What pipes share: checks of the user's functions, files below a folder, streams that close."""

from __future__ import annotations

import fnmatch
import inspect
import os
import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pullback.core import origin
from pullback.core.listing import only_public as _only_public

__all__ = [
    "StreamWrapper",
    "get_file_binaries_from_pathnames",
    "get_file_pathnames_from_root",
    "match_masks",
    "validate_input_col",
    "validate_pathname_binary_tuple",
]


def warn_of_local(function: Callable[..., Any]) -> None:
    """Say that a lambda or a function inside a function cannot go to a worker that is spawned."""
    name = getattr(function, "__qualname__", "")
    if "<lambda>" not in name and "<locals>" not in name:
        return
    try:
        pickle.dumps(function)
    except Exception:
        warnings.warn(
            f"{name} is a local function, which pickle does not take: the data pipe cannot go to "
            "another process. Define the function at the top of a module.",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )


def validate_input_col(fn: Callable[..., Any], input_col: Any) -> None:
    """ValueError where a function cannot take as many arguments as there are columns.

    >>> validate_input_col(lambda a, b: a + b, [0, 1])
    >>> validate_input_col(lambda a, b: a + b, 0)
    Traceback (most recent call last):
    ...
    ValueError: <lambda> cannot be called with 1 argument: ...
    """
    try:
        signature = inspect.signature(fn)
    except ValueError:  # some builtins have none
        return
    count = len(input_col) if isinstance(input_col, list | tuple) else 1
    try:
        signature.bind(*[None] * count)
    except TypeError as error:
        name = getattr(fn, "__name__", repr(fn))
        raise ValueError(
            f"{name} cannot be called with {count} argument{'s' * (count != 1)}: {error}. "
            "input_col says which columns it is given."
        ) from None


def known_length(pipe: Any, length: int) -> int:
    """The length that was given for a pipe; TypeError where none was."""
    if length < 0:
        raise TypeError(
            f"{type(pipe).__name__} has no length before all is read; give it as length=."
        )
    return length


def match_masks(name: str, masks: str | list[str]) -> bool:
    """Whether a file's name fits one of the masks; none given fit every name.

    Args:
        name: Name of the file.
        masks: A pattern such as `*.txt`, or several.

    >>> match_masks("a.txt", ["*.md", "*.txt"]), match_masks("a.txt", "")
    (True, True)
    """
    if not masks:
        return True
    wanted = [masks] if isinstance(masks, str) else masks
    return any(fnmatch.fnmatch(name, mask) for mask in wanted)


def get_file_pathnames_from_root(
    root: str,
    masks: str | list[str],
    recursive: bool = False,
    abspath: bool = False,
    non_deterministic: bool = False,
) -> Iterator[str]:
    """Paths of the files below a folder, sorted unless that does not matter."""

    def failed(error: OSError) -> None:
        raise error

    if os.path.isfile(root):
        path = os.path.abspath(root) if abspath else root
        if match_masks(os.path.basename(path), masks):
            yield path
        return
    for folder, below, names in os.walk(root, onerror=failed):
        if not non_deterministic:
            below.sort()
            names.sort()
        for name in names:
            if match_masks(name, masks):
                yield os.path.join(os.path.abspath(folder) if abspath else folder, name)
        if not recursive:
            return


def get_file_binaries_from_pathnames(
    pathnames: Iterable[str], mode: str, encoding: str | None = None
) -> Iterator[tuple[str, Any]]:
    """Each path with the file opened; `b` and `t` alone mean to read.

    Args:
        pathnames: Paths to open.
        mode: Mode as of `open`.
        encoding: Encoding of text files.
    """
    if mode in ("b", "t"):
        mode = f"r{mode}"
    for path in pathnames:
        if not isinstance(path, str):
            raise TypeError(f"Files are opened by their path, a str; got {type(path).__name__}.")
        yield path, StreamWrapper(open(path, mode, encoding=encoding))  # noqa: SIM115  # the user's


def validate_pathname_binary_tuple(data: Any) -> None:
    """TypeError where an item is no pair of a path and a stream."""
    if not isinstance(data, tuple):
        raise TypeError(f"A pair of path and stream is needed, got {type(data).__name__}.")
    if len(data) != 2:
        raise TypeError(f"A pair of path and stream is needed, got {len(data)} items.")
    if not isinstance(data[0], str):
        raise TypeError(f"A path is a str, got {type(data[0]).__name__}.")
    if not hasattr(data[1], "read"):
        raise TypeError(f"A stream can be read; {type(data[1]).__name__} cannot.")


class StreamWrapper:
    """A stream that is closed when nobody holds it any more.

    Args:
        file_obj: Stream to wrap.
        parent_stream: Stream that this one reads from; closed when all that read from it are.
        name: Name to show.

    Example:
        >>> import io
        >>> from pullback.utils.data.datapipes.utils.common import StreamWrapper
        >>> list(StreamWrapper(io.StringIO("a b")))
        ['a b']
    """

    def __init__(self, file_obj: Any, parent_stream: Any = None, name: str | None = None) -> None:
        self.file_obj, self.name, self.closed = file_obj, name, False
        self._parent = parent_stream  # kept open as long as its part is read

    @classmethod
    def close_streams(cls, v: Any, depth: int = 0) -> None:
        """Close the streams in an item, through dicts, lists and tuples."""
        if isinstance(v, StreamWrapper):
            v.close()
        elif isinstance(v, dict):
            for one in v.values():
                cls.close_streams(one, depth + 1)
        elif isinstance(v, list | tuple):
            for one in v:
                cls.close_streams(one, depth + 1)

    def __getattr__(self, name: str) -> Any:
        if name == "file_obj":  # not there yet: while it is copied
            raise AttributeError(name)
        return getattr(self.file_obj, name)

    def close(self) -> None:
        """Close the stream."""
        self.closed = True
        self.file_obj.close()

    def autoclose(self) -> None:
        """Close it; a stream has no parts here that would have to be read first."""
        self.close()

    def __enter__(self) -> StreamWrapper:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        yield from self.file_obj

    def __next__(self) -> Any:
        return next(self.file_obj)

    def __repr__(self) -> str:
        return f"StreamWrapper<{self.name or repr(self.file_obj)}>"

    def __getstate__(self) -> Any:
        return self.file_obj

    def __setstate__(self, file_obj: Any) -> None:
        self.__init__(file_obj)  # type: ignore[misc]  # a copy begins as a new one does

    def __del__(self) -> None:
        if not self.__dict__.get("closed", True):
            self.close()


__dir__ = _only_public(globals())
