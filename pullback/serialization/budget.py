"""What a file may cost: memory is bounded by the file's size, whatever the file claims."""

from __future__ import annotations

import pickle

__all__ = ["Budget", "refuse"]

# Objects: a pickle of empty lists, each remembered, is 160 bytes of objects for 3 of pickle.
_OBJECT_BYTES_PER_BYTE = 100
# Storages: as many bytes as the file has, and compressed ones a few times that.
_DATA_BYTES_PER_BYTE = 8
_FREE = 1 << 20


def refuse(why: str) -> pickle.UnpicklingError:
    """The error for a file that cannot be what `save` wrote."""
    return pickle.UnpicklingError(f"load(): the file is damaged or hostile: {why}.")


class Budget:
    """Counts what a load makes, and ends it where that is out of proportion to the file."""

    __slots__ = ("data", "objects")

    def __init__(self, file_size: int) -> None:
        self.objects = _OBJECT_BYTES_PER_BYTE * file_size + _FREE
        self.data = _DATA_BYTES_PER_BYTE * file_size + _FREE

    def spend(self, size: int) -> None:
        """Count `size` bytes of Python objects."""
        self.objects -= size
        if self.objects < 0:
            raise refuse("its objects would take far more memory than the file itself")

    def spend_data(self, size: int) -> None:
        """Count `size` bytes of tensors, before they are allocated."""
        self.data -= size
        if self.data < 0:
            raise refuse("its tensors would take far more memory than the file itself")
