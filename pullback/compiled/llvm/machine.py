"""This machine: how wide its vectors are, LLVM's compiler for it, and where BLAS is."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy

from pullback.compiled.llvm.image import Image, NotLoadable
from pullback.compiled.llvm.kept import Kept
from pullback.compiled.llvm.processor import processor

__all__ = ["Blas", "Code", "Machine", "can_scale", "is_available", "machine"]


class Blas(NamedTuple):
    """A product of matrices in NumPy's own library."""

    address: int
    whole: str  # its type of whole numbers
    name: str


def is_available() -> bool:
    """Whether there is an LLVM that can be loaded."""
    return processor() is not None


class Machine:
    """The processor that programs are written for."""

    unroll = 2

    def __init__(self) -> None:
        here = processor()
        if here is None:
            raise ImportError("llvmlite is not installed, or cannot be loaded")
        self.processor = here
        wide = 64 if here.has("avx512f") else 32 if here.has("avx2") else 16
        self.vector_bytes = int(os.environ.get("PULLBACK_VECTOR_BYTES", wide))
        self._lock = threading.Lock()

    @cached_property
    def llvm(self) -> Any:
        """LLVM's library: 45 MB, needed for code that is not kept yet."""
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        return llvm

    def target_machine(self, level: int) -> Any:
        """LLVM's code generator, for addresses of any size: `image.py` relies on it."""
        return self.llvm.Target.from_default_triple().create_target_machine(
            cpu=self.processor.name, features=self.processor.features, opt=level, jit=True,
            codemodel="jitdefault",
        )  # fmt: skip

    def compiled(self, text: str, level: int) -> bytes:
        """Object code of a text, by a generator of its own, which remembers what it compiled."""
        with self._lock:
            made = self.target_machine(level).emit_object(self.llvm.parse_assembly(text))
        return bytes(made)

    @cache  # noqa: B019 (there is one machine)
    def blas(self, dtype: str) -> Blas:
        """Where BLAS multiplies matrices of a dtype."""
        return _find_blas({"f4": "s", "f8": "d"}[dtype])

    @property
    def key(self) -> str:
        """What object code depends on besides the text."""
        return f"{' '.join(self.processor)} {sys.maxsize}"


@cache
def machine() -> Machine:
    """The machine that this runs on."""
    return Machine()


def can_scale(e: str, w: int) -> bool:
    """Whether there is an instruction for x * 2^n that knows overflow and denormals."""
    here = machine()
    whole = w * (4 if e == "float" else 8) % 64 == 0
    return whole and here.vector_bytes == 64 and here.processor.has("avx512f")


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
    """Machine code of a module's text."""

    def __init__(self, text: str, level: int = 1, *, keep: bool = True) -> None:
        """With `keep` it is kept on disk, by its text."""
        here = machine()
        kept = Kept(f"{here.key} {level}\n{text}")
        code = kept.load() if keep else None
        self.was_kept = code is not None
        self._object = b""
        if code is None:
            code = here.compiled(text, level)
            if keep:
                kept.store(code)
            else:
                self._object = code
        self._load(code)

    @classmethod
    def of_object(cls, code: bytes) -> Code:
        """Machine code that was compiled before."""
        made = cls.__new__(cls)
        made.was_kept, made._object = True, b""
        made._load(code)
        return made

    def taken(self) -> bytes:
        """The object code, once: for who keeps it with something else."""
        found, self._object = self._object, b""
        return found

    def _load(self, code: bytes) -> None:
        try:
            self._loaded: Any = Image(code)
        except NotLoadable:
            self._loaded = _Engine(code)

    def address(self, name: str) -> int:
        """Where a function begins, or a variable of the module is."""
        return int(self._loaded.address(name))


class _Engine:
    """Object code in memory by LLVM's own loader.

    It gets object code and not the text: an engine that compiles keeps the module, 0.9 MB for a
    product of matrices and not 0.1.
    """

    def __init__(self, code: bytes) -> None:
        here = machine()
        llvm = here.llvm
        with here._lock:
            empty = llvm.parse_assembly("")
            self._engine = llvm.create_mcjit_compiler(empty, here.target_machine(1))
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Where a function begins, or a variable is."""
        found = self._engine.get_function_address(name)
        return int(found or self._engine.get_global_value_address(name))


def _in_child() -> None:
    """In a forked child nobody is left to release what another thread held."""
    if machine.cache_info().currsize:
        machine()._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
