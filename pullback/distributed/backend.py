"""The names of back ends, as constants: what `init_process_group(backend=...)` takes."""

from __future__ import annotations

from typing import ClassVar

__all__ = ["Backend"]


class Backend(str):
    """A back end's name, in small letters.

    >>> from pullback.distributed import Backend
    >>> Backend("GLOO") == Backend.GLOO == "gloo"
    True
    """

    __slots__ = ()

    UNDEFINED: ClassVar[str] = "undefined"
    GLOO: ClassVar[str] = "gloo"
    NCCL: ClassVar[str] = "nccl"
    UCC: ClassVar[str] = "ucc"
    MPI: ClassVar[str] = "mpi"
    XCCL: ClassVar[str] = "xccl"
    FAKE: ClassVar[str] = "fake"
    THREADS: ClassVar[str] = "threads"

    def __new__(cls, name: str) -> Backend:
        """The name in small letters."""
        if not isinstance(name, str):
            raise ValueError(f"A back end is named by a string, got {type(name).__name__}.")
        return super().__new__(cls, name.lower())
