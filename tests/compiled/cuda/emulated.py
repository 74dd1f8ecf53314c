"""CuPy's `RawModule` on the host: the same text, compiled with CUDA's words by a C++ compiler."""

import ctypes
import hashlib
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

COMPILER = shutil.which("g++") or shutil.which("c++")
_HERE = Path(__file__).parent
_KERNEL = re.compile(r'extern "C" __global__ void (\w+)\(([^)]*)\)')
texts: list[str] = []  # what was compiled, for tests that look at it
launches: list[str] = []


class RawModule:
    """Kernels by name."""

    _known: dict[str, ctypes.CDLL] = {}  # noqa: RUF012 (shared by all: compiling takes a second)

    def __init__(self, code: str) -> None:
        texts.append(code)
        key = hashlib.sha256(code.encode()).hexdigest()
        if key not in self._known:
            self._known[key] = _compiled(code)
        self.library = self._known[key]

    def get_function(self, name: str):
        launch = getattr(self.library, f"launch_{name}")

        def run(grid, block, args):
            launches.append(name)
            words = (ctypes.c_longlong * max(len(args), 1))(*args)
            pointers = (ctypes.c_void_p * max(len(args), 1))(
                *[ctypes.addressof(words) + 8 * n for n in range(len(args))]
            )
            launch(pointers, grid[0], grid[1] if len(grid) > 1 else 1, block[0])

        return run


def _compiled(code: str) -> ctypes.CDLL:
    wrappers = []
    for name, parameters in _KERNEL.findall(code):
        kinds = [one.strip().rsplit(" ", 1)[0] for one in parameters.split(",")]
        given = ", ".join(f"*({kind}*)args[{n}]" for n, kind in enumerate(kinds))
        wrappers.append(
            f"static void call_{name}(void** args) {{ {name}({given}); }}\n"
            f'extern "C" void launch_{name}(void** args, unsigned x, unsigned y, unsigned b) '
            f"{{ run(call_{name}, args, x, y, b); }}"
        )
    folder = Path(tempfile.mkdtemp(prefix="emulated"))
    try:
        source = folder / "kernels.cpp"
        source.write_text("\n".join([f'#include "{_HERE / "emulated.h"}"', code, *wrappers]))
        target = folder / "kernels.so"
        subprocess.run(
            [COMPILER, "-O0", "-w", "-shared", "-fPIC", "-o", target, source],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        return ctypes.CDLL(str(target))
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"{error.stderr}\n{code}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
