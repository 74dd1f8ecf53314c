"""`torch.utils.cpp_extension`: importing works, so that a setup.py can ask; building is refused."""

from __future__ import annotations

from typing import Any

from pullback.core.explain.absent import refuse_others, refusing
from pullback.core.listing import only_public as _only_public

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

CUDA_HOME = None
ROCM_HOME = None
IS_HIP_EXTENSION = False


def is_ninja_available() -> bool:
    """Whether extensions could be built with ninja; here none can be built."""
    return False


class BuildExtension:
    """Refused when made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        refusing("utils.cpp_extension.BuildExtension")()

    @classmethod
    def with_options(cls, **options: Any) -> type[BuildExtension]:
        """The class itself, which refuses."""
        return cls


CppExtension = refusing("utils.cpp_extension.CppExtension")
CUDAExtension = refusing("utils.cpp_extension.CUDAExtension")
SyclExtension = refusing("utils.cpp_extension.SyclExtension")
include_paths = refusing("utils.cpp_extension.include_paths")
library_paths = refusing("utils.cpp_extension.library_paths")
load = refusing("utils.cpp_extension.load")
load_inline = refusing("utils.cpp_extension.load_inline")
BuildExtension.__doc__ = load.__doc__

refuse_others(globals())

__dir__ = _only_public(globals())
