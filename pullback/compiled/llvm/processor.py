"""What LLVM says of this processor, kept on disk: to ask it takes 40 ms and 45 MB."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

from pullback.compiled.llvm.kept import Kept

__all__ = ["Processor", "processor"]

_KEPT = frozenset({
    "vendor_id", "cpu family", "model", "model name", "stepping", "flags",
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features",
})  # fmt: skip


class Processor(NamedTuple):
    """What machine code is written for, and by which LLVM."""

    name: str
    features: str  # "+avx,-avx512f", as LLVM takes them
    version: str

    def has(self, feature: str) -> bool:
        """Whether it has instructions of a kind."""
        return f"+{feature}" in self.features.split(",")


@cache
def processor() -> Processor | None:
    """The processor that this runs on; None where LLVM is not to be had."""
    here = _signs()
    kept = None if here is None else Kept(f"processor {here}")
    found = None if kept is None else kept.load()
    if found is not None:
        return Processor(*found.decode().split("\n"))
    try:
        import llvmlite.binding as llvm
    except (ImportError, OSError):
        return None
    made = Processor(
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
        ".".join(map(str, llvm.llvm_version_info)),
    )
    if kept is not None:
        kept.store("\n".join(made).encode())
    return made


def _signs() -> str | None:
    """What its answer depends on: the library's file, and what the system says; None: unknown."""
    try:
        package = find_spec("llvmlite")
        if package is None or package.origin is None:
            return None
        library = os.path.join(os.path.dirname(package.origin), "binding", "libllvmlite.so")
        file = os.stat(library)
        with open("/proc/cpuinfo", "rb", buffering=0) as system:
            lines = system.read(8192).decode("utf-8", "replace").split("\n\n")[0].split("\n")
    except (OSError, ValueError):
        return None
    said = [line for line in lines if line.partition(":")[0].strip() in _KEPT]
    return "\n".join([library, f"{file.st_size} {file.st_mtime_ns} {file.st_ino}", *said])
