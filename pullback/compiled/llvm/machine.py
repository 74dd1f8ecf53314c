"""This machine: how wide its vectors are, LLVM's compiler for it, and where BLAS is."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from functools import cache
from typing import Any, NamedTuple

import numpy

from pullback.compiled.llvm.kept import Kept

__all__ = ["Blas", "Code", "Machine", "can_scale", "is_available", "machine"]


class Blas(NamedTuple):
    """A product of matrices in NumPy's own library."""

    address: int
    whole: str  # its type of whole numbers
    name: str


@cache
def is_available() -> bool:
    """Whether llvmlite can be imported."""
    try:
        import llvmlite.binding  # noqa: F401 (is it installed?)
    except (ImportError, OSError):
        return False
    return True


class Machine:
    """The processor that programs are written for."""

    unroll = 2

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        self.llvm = llvm
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.features = llvm.get_host_cpu_features()
        self.cpu = llvm.get_host_cpu_name()
        wide = 64 if self.features.get("avx512f") else 32 if self.features.get("avx2") else 16
        self.vector_bytes = int(os.environ.get("PULLBACK_VECTOR_BYTES", wide))
        self._target = llvm.Target.from_default_triple()
        self._lock = threading.Lock()

    def target_machine(self, level: int) -> Any:
        """LLVM's code generator."""
        return self._target.create_target_machine(
            cpu=self.cpu, features=self.features.flatten(), opt=level, jit=True,
            codemodel="jitdefault",
        )  # fmt: skip

    @cache  # noqa: B019 (there is one machine)
    def blas(self, dtype: str) -> Blas:
        """Where BLAS multiplies matrices of a dtype."""
        return _find_blas({"f4": "s", "f8": "d"}[dtype])

    @property
    def key(self) -> str:
        """What object code depends on besides the text."""
        version = ".".join(map(str, self.llvm.llvm_version_info))
        return f"{self.cpu} {self.features.flatten()} {version} {sys.maxsize}"


@cache
def machine() -> Machine:
    """The machine that this runs on."""
    return Machine()


def can_scale(e: str, w: int) -> bool:
    """Whether there is an instruction for x * 2^n that knows overflow and denormals."""
    here = machine()
    whole = w * (4 if e == "float" else 8) % 64 == 0
    return whole and here.vector_bytes == 64 and bool(here.features.get("avx512f"))


def _find_blas(letter: str) -> Blas:
    numpy.dot(numpy.ones((2, 2)), numpy.ones((2, 2)))  # loads it
    names = [(f"scipy_cblas_{letter}gemm64_", "i64"), (f"cblas_{letter}gemm64_", "i64"),
             (f"scipy_cblas_{letter}gemm", "i32"), (f"cblas_{letter}gemm", "i32")]  # fmt: skip
    for path in _loaded_libraries():
        library = ctypes.CDLL(path)
        for name, whole in names:
            if hasattr(library, name):
                address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
                return Blas(int(address or 0), whole, name)
    raise LookupError("NumPy's BLAS was not found among the libraries of this process")


@cache
def has_blas() -> bool:
    """Whether products can be native."""
    try:
        machine().blas("f4")
        machine().blas("f8")
    except (LookupError, OSError):
        return False
    return True


def _loaded_libraries() -> list[str]:
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split(maxsplit=5)[-1].strip() for line in maps if "/" in line}
    except OSError:
        return []
    return sorted(path for path in paths if "blas" in os.path.basename(path).lower())


class Code:
    """Machine code of a module's text.

    The text is compiled to object code, and that alone is loaded: an engine that compiles keeps the
    module, 0.9 MB for a product of matrices and not 0.1.
    """

    def __init__(self, text: str, level: int = 1, *, keep: bool = True) -> None:
        here = machine()
        llvm = here.llvm
        kept = Kept(f"{here.key} {level}\n{text}")
        with here._lock:
            code = kept.load() if keep else None
            self.was_kept = code is not None
            if code is None:
                # By a generator of its own, which remembers what it compiled.
                code = here.target_machine(level).emit_object(llvm.parse_assembly(text))
                if keep:
                    kept.store(code)
            empty = llvm.parse_assembly("")
            self.engine = llvm.create_mcjit_compiler(empty, here.target_machine(level))
            self.engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            self.engine.finalize_object()

    def address(self, name: str) -> int:
        """Where a function begins."""
        return int(self.engine.get_function_address(name))

    def address_of_data(self, name: str) -> int:
        """Where a variable of the module is."""
        return int(self.engine.get_global_value_address(name))


def _in_child() -> None:
    """In a forked child nobody is left to release what another thread held."""
    if machine.cache_info().currsize:
        machine()._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
