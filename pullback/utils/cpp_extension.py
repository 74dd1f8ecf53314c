"""`torch.utils.cpp_extension`: importing works, so that a setup.py can ask; building is refused."""

from __future__ import annotations

from typing import Any

from pullback.core.process.refused import refusing

__all__ = [
    "CUDA_HOME",
    "IS_HIP_EXTENSION",
    "ROCM_HOME",
    "BuildExtension",
    "CUDAExtension",
    "CppExtension",
    "SyclExtension",
    "include_paths",
    "is_ninja_available",
    "library_paths",
    "load",
    "load_inline",
]

_WHY = (
    "extensions are compiled against torch's C++ headers, and there is no C++ behind these tensors"
)
_INSTEAD = (
    "Write a custom operator (docs/custom-operators.md); its kernel may be C, by way of cffi or "
    "ctypes, or numba."
)

CUDA_HOME = None
ROCM_HOME = None
IS_HIP_EXTENSION = False


def is_ninja_available() -> bool:
    """Whether extensions could be built with ninja; here none can be built."""
    return False


class BuildExtension:
    """Refused when made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        refusing("cpp_extension.BuildExtension", _WHY, _INSTEAD)()

    @classmethod
    def with_options(cls, **options: Any) -> type[BuildExtension]:
        """The class itself, which refuses."""
        return cls


CppExtension = refusing("cpp_extension.CppExtension", _WHY, _INSTEAD)
CUDAExtension = refusing("cpp_extension.CUDAExtension", _WHY, _INSTEAD)
SyclExtension = refusing("cpp_extension.SyclExtension", _WHY, _INSTEAD)
include_paths = refusing("cpp_extension.include_paths", _WHY, _INSTEAD)
library_paths = refusing("cpp_extension.library_paths", _WHY, _INSTEAD)
load = refusing("cpp_extension.load", _WHY, _INSTEAD)
load_inline = refusing("cpp_extension.load_inline", _WHY, _INSTEAD)
