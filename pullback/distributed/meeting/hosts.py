"""Machines, seen from one of them: which one this is, and by which addresses others reach it."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Sequence
from itertools import groupby
from typing import Any

__all__ = ["addresses", "identity", "mapping"]

_ADDRESS_OF = 0x8915  # SIOCGIFADDR of Linux


def identity() -> str:
    """The same for processes that share memory and the loopback address, and for no others."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        parts.append(file.read().strip())
    for space in ("ipc", "mnt", "net", "pid"):
        with contextlib.suppress(OSError):
            parts.append(os.readlink(f"/proc/self/ns/{space}"))
    return "|".join(parts)


def mapping(machines: Sequence[str]) -> str:
    """Which ranks share a machine, as PMI says it: (first node, nodes, ranks on each) by runs."""
    numbers: dict[str, int] = {}
    runs = []
    for machine, ranks in groupby(machines):
        node = numbers.setdefault(machine, len(numbers))
        runs.append(f"({node},1,{len(list(ranks))})")
    return f"(vector,{','.join(runs)})"


def addresses(store: Any = None) -> list[str]:
    """Addresses by which other machines may reach this one, the likeliest first."""
    found = []
    if (known := getattr(store, "reached_by", None)) is not None:
        found.append(known())
    found += _of_interfaces()
    with contextlib.suppress(OSError):
        found += socket.gethostbyname_ex(socket.gethostname())[2]
    usable = [one for one in dict.fromkeys(found) if one and not one.startswith("127.")]
    return usable or ["127.0.0.1"]


def _of_interfaces() -> list[str]:
    """The IPv4 address of every network interface; where systems do not tell, none."""
    try:
        from fcntl import ioctl
    except ImportError:
        return []
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = ioctl(asking.fileno(), _ADDRESS_OF, struct.pack("256s", name.encode()))
                found.append(socket.inet_ntoa(answer[20:24]))
    return found
