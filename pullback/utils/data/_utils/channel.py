"""Messages between a loader and a worker: a pickle, and large arrays beside it in shared memory.

Arrays leave the pickle by its own door for large buffers (protocol 5): all those of a message lie
in one anonymous block whose file descriptor goes along, so a batch is written once, never parsed.
"""

from __future__ import annotations

import io
import os
import pickle
import socket
import struct
import weakref
from multiprocessing import reduction
from typing import Any

from pullback.core.memory.shared import Block, anonymous_file
from pullback.core.tensor import Tensor

# From here on a block of its own pays: below, the bytes are through the socket sooner (measured:
# equal at about 64 kB).
_LEAST = 1 << 16
_ALIGNMENT = 64
_CAN_PASS = hasattr(socket, "send_fds")
# A mapping holds file descriptors, of which a process may have as few as 256: whoever keeps more
# batches than this gets the next ones as copies in ordinary memory.
_MOST_MAPPED = 64
_mapped: weakref.WeakSet[Block] = weakref.WeakSet()


class _Pickler(pickle.Pickler):
    """As multiprocessing's, except that tensors are arrays like others: see `send`."""

    def __init__(self, file: io.BytesIO, buffer_callback: Any) -> None:
        super().__init__(file, 5, buffer_callback=buffer_callback)
        extra: Any = reduction.ForkingPickler._extra_reducers  # type: ignore[attr-defined]  # typeshed lacks it
        self.dispatch_table = {k: v for k, v in extra.items() if not issubclass(k, Tensor)}


def send(connection: Any, message: Any) -> None:
    """Send an object; blocks until it has been written, not until it is read."""
    large: list[memoryview] = []

    def keep_inside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if not _CAN_PASS or raw.nbytes < _LEAST:
            return True
        large.append(raw)
        return False

    file = io.BytesIO()
    _Pickler(file, keep_inside).dump(message)
    sizes = [raw.nbytes for raw in large]
    head = struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)
    connection.send_bytes(head + file.getbuffer())
    if large:
        _send_block(connection, large)


def _places(sizes: list[int]) -> tuple[list[int], int]:
    """Where each buffer starts in the block, and where the last ends."""
    starts, end = [], 0
    for size in sizes:
        starts.append(end)
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return starts, end


def _send_block(connection: Any, large: list[memoryview]) -> None:
    starts, end = _places([raw.nbytes for raw in large])
    fd = anonymous_file(end)
    try:
        # Written, not mapped: that spares this process a page fault for every 4 kB.
        for start, raw in zip(starts, large, strict=True):
            done = 0
            while done < raw.nbytes:
                done += os.pwrite(fd, raw[done:], start + done)
        with socket.socket(fileno=os.dup(connection.fileno())) as pipe:
            socket.send_fds(pipe, [b"."], [fd])
    finally:
        os.close(fd)


def receive(connection: Any) -> Any:
    """The next object; EOFError or OSError if the other side has gone."""
    data = memoryview(connection.recv_bytes())
    (count,) = struct.unpack_from("<I", data)
    sizes = list(struct.unpack_from(f"<{count}Q", data, 4))
    buffers = _receive_block(connection, sizes) if count else []
    return pickle.loads(data[4 + 8 * count :], buffers=buffers)


def _receive_block(connection: Any, sizes: list[int]) -> list[Any]:
    starts, end = _places(sizes)
    with socket.socket(fileno=os.dup(connection.fileno())) as pipe:
        read, fds, *_ = socket.recv_fds(pipe, 1, 1)
    if not read:
        raise EOFError
    block = Block(end, fds[0])
    whole = memoryview(block)
    parts = [whole[start : start + size] for start, size in zip(starts, sizes, strict=True)]
    if len(_mapped) < _MOST_MAPPED:
        _mapped.add(block)
        return parts
    return [bytearray(part) for part in parts]
