"""Tensors whose memory is a file."""

from __future__ import annotations

import os
from typing import Any

import numpy

from pullback.core.dtype import default
from pullback.core.tensor import Tensor
from pullback.operators.create.exchange import plain
from pullback.operators.create.factory import Options, Unpack, checked, made

FOUND_IN = {"torch": "from_file"}


def from_file(
    filename: str | os.PathLike[str],
    shared: bool | None = None,
    size: int | None = 0,
    **options: Unpack[Options],
) -> Tensor:
    """The first `size` elements of a file, mapped into memory.

    With `shared` what is written to the tensor is written to the file, which is made or made longer
    if need be; without, writes stay in memory.

    Example:
        >>> import os, tempfile
        >>> import pullback as torch
        >>> path = os.path.join(tempfile.mkdtemp(), "numbers")
        >>> written = torch.from_file(path, shared=True, size=3).fill_(2)
        >>> torch.from_file(path, size=2)
        tensor([2., 2.])
    """
    dtype = checked("from_file", options, default.numpy)
    count, path = size or 0, os.fspath(filename)
    needed = count * dtype.itemsize
    if shared and (not os.path.exists(path) or os.path.getsize(path) < needed):
        with open(path, "ab") as file:
            file.truncate(needed)
    if not os.path.exists(path):
        raise RuntimeError(f"from_file: there is no file {path!r}; shared=True would make one.")
    if os.path.getsize(path) < needed:
        raise RuntimeError(
            f"from_file: {count} elements take {needed} bytes, {path!r} has "
            f"{os.path.getsize(path)}."
        )
    if not count:
        return made("from_file", numpy.empty(0, dtype), options)
    mapped: Any = numpy.memmap(path, dtype, "r+" if shared else "c", shape=(count,))
    return made("from_file", plain(mapped), options)
