"""CUDA C run on the host: `RawKernel` and `RawModule` of the stand-in, by a C++ compiler.

A kernel's source is compiled behind a header that gives C++ the words of CUDA. Blocks run one after
another, the threads of a block as fibers that give way at `__syncthreads` and at shuffles; a thread
that waits where the others never come is an error here, not a hang. Arguments go in as CuPy hands
them over: pointers, and numbers of the size that they have. `launches` counts.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import re
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy

__all__ = ["HAS_COMPILER", "RawKernel", "RawModule", "launch_kernel", "launches"]

COMPILER = shutil.which("c++") or shutil.which("g++")
HAS_COMPILER = COMPILER is not None
launches: list[str] = []  # names of the kernels that ran, in order
_functions: list[Any] = []  # a function's address is its place here, from 1 on
_HEADER = (Path(__file__).parent / "cuda_words.h").read_text()
_folder: Any = None
_one_at_a_time = threading.Lock()  # the fibers and the grid are the process's
_FLAGS = ("-O1", "-std=c++17", "-shared", "-fPIC", "-w", "-Wl,-Bsymbolic", "-ffp-contract=off")
_SIGNATURE = re.compile(r'extern\s+"C"\s+__global__\s+void\s+(\w+)\s*\(([^)]*)\)', re.S)
_BOUNDS = re.compile(r"__launch_bounds__\([^)]*\)")
# What C++ has no words for: the assembler that kernels use, and shared memory of any size.
_WORDS = (
    (r'asm\("cvt\.f32\.f16 %0, %1;" : "=f"\((\w+)\) : "h"\((\w+)\)\);', r"\1 = half_to_float(\2);"),
    (
        r'asm\("cvt\.rn\.f16\.f32 %0, %1;" : "=h"\((\w+)\) : "f"\((\w+)\)\);',
        r"\1 = float_to_half(\2);",
    ),
    (
        r'asm\("cvt\.rn\.(\w+)x2\.f32 %0, %1, %2;" : "=r"\(r\) : "f"\(high\), "f"\(low\)\);',
        r"r = pair_of_\1(low, high);",
    ),
    (
        r'asm volatile\("mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.(\w+)[^;]*;"[^;]*;',
        r"mma_\1(c, a, b0, b1);",
    ),
    (
        r'asm volatile\("ldmatrix\.sync\.aligned\.m8n8\.x4\.shared[^;]*;[^;]*;',
        "matrices(r, p, false);",
    ),
    (
        r'asm volatile\("ldmatrix\.sync\.aligned\.m8n8\.x4\.trans[^;]*;[^;]*;',
        "matrices(r, p, true);",
    ),
    (r'asm volatile\("cp\.async\.cg[^;]*;[^;]*;', "copied_16(to, from, bytes);"),
    (r'asm volatile\("cp\.async\.wait_all;"[^;]*;', ""),
    (r"extern __shared__ (\w+) (\w+)\[\];", r"\1* \2 = (\1*)dynamic_shared;"),
)


def _in_cpp(source: str) -> tuple[str, dict[str, list[str]]]:
    """The source with a launcher for each kernel, and the types of the kernels' parameters."""
    source = _BOUNDS.sub("", source)
    for pattern, instead in _WORDS:
        source = re.sub(pattern, instead, source)
    assert "asm(" not in source, "assembler that the stand-in does not know"
    types: dict[str, list[str]] = {}
    launchers = []
    for name, parameters in _SIGNATURE.findall(source):
        kinds = [" ".join(one.split()[:-1]) for one in parameters.split(",")]
        kinds = [kind.replace("__restrict__", "").strip() for kind in kinds]
        types[name] = kinds
        given = ", ".join(f"*({kind}*)arguments[{i}]" for i, kind in enumerate(kinds))
        sizes = ", ".join(f"sizeof({kind})" for kind in kinds)
        launchers.append(
            f"static void call_{name}(void** arguments) {{ {name}({given}); }}\n"
            f'extern "C" const char* launch_{name}(void** arguments, const int* sizes,'
            f" const unsigned* grid, const unsigned* block, int shared) {{\n"
            f"    const int wanted[] = {{{sizes}}};\n"
            f"    return run_grid(call_{name}, arguments, sizes, wanted, {len(kinds)}, grid, block,"
            f" shared); }}\n"
        )
    return _HEADER + source + "\n" + "\n".join(launchers), types


def _compiled(source: str) -> tuple[Any, dict[str, list[str]]]:
    global _folder
    if _folder is None:
        _folder = tempfile.TemporaryDirectory(prefix="pullback-kernels-")
    text, types = _in_cpp(source)
    path = Path(_folder.name) / hashlib.sha256(text.encode()).hexdigest()[:24]
    library = path.with_suffix(".so")
    if not library.exists():
        path.with_suffix(".cpp").write_text(text)
        command = [COMPILER, *_FLAGS, str(path.with_suffix(".cpp")), "-o", str(library)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"a kernel does not compile:\n{done.stderr[:4000]}")
    return ctypes.CDLL(str(library)), types


class _Function:
    def __init__(self, library: Any, name: str, types: list[str]) -> None:
        self._name, self._types = name, types
        self._launch = library[f"launch_{name}"]
        self._launch.restype = ctypes.c_char_p
        self.max_dynamic_shared_size_bytes = 48 << 10
        _functions.append(self)
        self.ptr = len(_functions)

    def __call__(self, grid: Any, block: Any, args: Any, *, shared_mem: int = 0) -> None:
        assert len(args) == len(self._types), (self._name, len(args), self._types)
        values = [_as_bytes(one) for one in args]
        pointers = (ctypes.c_void_p * len(values))(*[one.ctypes.data for one in values])
        sizes = (ctypes.c_int * len(values))(*[one.nbytes for one in values])
        self.run(grid, block, pointers, sizes, shared_mem)

    def run(self, grid: Any, block: Any, pointers: Any, sizes: Any, shared_mem: int) -> None:
        assert shared_mem <= self.max_dynamic_shared_size_bytes
        threads = int(numpy.prod(block))
        assert 0 < threads <= 1024, block
        assert all(0 < one < 2**31 for one in grid), grid
        with _one_at_a_time:
            launches.append(self._name)
            problem = self._launch(pointers, sizes, _three(grid), _three(block), shared_mem)
        if problem:
            raise RuntimeError(f"{self._name}: {problem.decode()}")


def launch_kernel(
    function: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int,
    shared: int, stream: int, parameters: int, extra: int,
) -> None:  # fmt: skip
    """The driver's call: parameters are a table of addresses, each of a value that lies there."""
    known = _functions[function - 1]
    count = len(known._types)
    pointers = (ctypes.c_void_p * count).from_address(parameters)
    places = [*pointers, pointers[-1] + 16]  # a value has the room up to the next one
    sizes = (ctypes.c_int * count)(*[b - a for a, b in itertools.pairwise(places)])
    known.run((gx, gy, gz), (bx, by, bz), pointers, sizes, shared)


def _three(sides: Any) -> Any:
    return (ctypes.c_uint * 3)(*sides, *(1,) * (3 - len(sides)))


def _as_bytes(value: Any) -> Any:
    """An argument as CuPy lays it out: a pointer, or a number of its own size."""
    if hasattr(value, "_a"):
        return numpy.array([value.data.ptr], numpy.uint64)
    if isinstance(value, bool | int):
        return numpy.array([value], numpy.int64)
    if isinstance(value, float):
        return numpy.array([value], numpy.float64)
    assert isinstance(value, numpy.generic), f"CuPy takes no {type(value)} for a kernel"
    return numpy.array([value])


class RawModule:
    """CUDA C with several kernels."""

    def __init__(self, *, code: str, options: Any = (), **more: Any) -> None:
        self._code = code
        self._found: Any = None

    def get_function(self, name: str) -> Any:
        if self._found is None:
            self._found = _compiled(self._code)
        library, types = self._found
        return _Function(library, name, types[name])


class RawKernel:
    """CUDA C with one kernel; compiled when first called."""

    def __init__(self, code: str, name: str, options: Any = (), **more: Any) -> None:
        self._module, self._name = RawModule(code=code), name
        self._function: Any = None

    @property
    def kernel(self) -> Any:
        if self._function is None:
            self._function = self._module.get_function(self._name)
        return self._function

    def __call__(self, grid: Any, block: Any, args: Any, *, shared_mem: int = 0) -> None:
        self.kernel(grid, block, args, shared_mem=shared_mem)
