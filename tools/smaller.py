"""Packs a wheel again, with every file deflated as small as can be: the same files, 3 % less.

A zip deflates each file by itself, and zlib looks for matches only so hard. zopfli takes some
hundred times as long for what any zip reader unpacks. zipfile cannot write data that is deflated
already, so the few records of the format are written here.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

__all__ = ["pack_again", "smallest"]

_VERSION = 20  # of zip: deflate, and folders
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")


def smallest(data: bytes) -> bytes:
    """Raw deflate by zopfli."""
    from zopfli import zlib

    return zlib.compress(data, numiterations=5)[2:-4]


def pack_again(archive: Path, deflate: Callable[[bytes], bytes] = smallest) -> None:
    """Write a zip anew, file by file as it was, each deflated by `deflate`, or kept if larger."""
    written, listed = bytearray(), bytearray()
    with zipfile.ZipFile(archive) as given:
        entries = given.infolist()
        for entry in entries:
            data = given.read(entry)
            packed, method = deflate(data), zipfile.ZIP_DEFLATED
            if len(packed) >= len(data):
                packed, method = data, zipfile.ZIP_STORED
            year, month, day, hour, minute, second = entry.date_time
            stamp = hour << 11 | minute << 5 | second // 2, (year - 1980) << 9 | month << 5 | day
            name = entry.filename.encode()
            flags = 0 if name.isascii() else 0x800
            sizes = (entry.CRC, len(packed), len(data), len(name), 0)
            common = (_VERSION, flags, method, *stamp, *sizes)
            made = entry.create_system << 8 | _VERSION
            place = (0, 0, 0, entry.external_attr, len(written))
            listed += _CENTRAL.pack(b"PK\1\2", made, *common, *place) + name
            written += _LOCAL.pack(b"PK\3\4", *common) + name + packed
    count = len(entries)
    end = _END.pack(b"PK\5\6", 0, 0, count, count, len(listed), len(written), 0)
    archive.write_bytes(written + listed + end)
