"""DLPack for dtypes that NumPy does not exchange: bfloat16, 8-bit floats, complex32.

NumPy makes and takes capsules of whole numbers of the same width; what they are is a byte in the
capsule's struct, set before the capsule is handed on.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.core.dtype import named_dtype
from pullback.core.memory.narrow import held

__all__ = ["exported", "imported"]

# DLDataTypeCode in dlpack.h, and the bits of an element.
_CODES = {
    "bfloat16": (4, 16),
    "complex32": (5, 32),
    "float8_e4m3fn": (10, 8),
    "float8_e4m3fnuz": (11, 8),
    "float8_e5m2": (12, 8),
    "float8_e5m2fnuz": (13, 8),
    "float8_e8m0fnu": (14, 8),
}
_NAMES = {code: name for name, code in _CODES.items()}
_UNSIGNED = 1

# Where the DLTensor is in what a capsule points to, and its dtype in there (64 bits).
_TENSOR_AT = {b"dltensor": 0, b"dltensor_versioned": 32}
_DTYPE_AT = 20

_name_of = ctypes.pythonapi.PyCapsule_GetName
_name_of.restype, _name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def exported(array: Array, name: str, options: dict[str, Any]) -> Any:
    """A capsule of an array whose dtype has this name; None where NumPy knows the dtype."""
    if name not in _CODES or not _is_known_layout():
        return None
    code, bits = _CODES[name]
    capsule = array.view(numpy.ndarray).view(f"u{bits // 8}").__dlpack__(**options)
    _dtype_in(capsule)[0] = code
    return capsule


def imported(capsule: Any) -> Any:
    """What makes the array again out of one of whole numbers, which the capsule becomes one of.

    None where NumPy knows the dtype, or the capsule was taken already.
    """
    if _name_of(capsule) not in _TENSOR_AT or not _is_known_layout():
        return None
    code = _dtype_in(capsule)
    name = _NAMES.get((code[0], code[1]))
    if name is None or code[2] != 1:
        return None
    wanted = named_dtype(name).numpy  # refuses, if at all, before anything is changed
    code[0] = _UNSIGNED
    return lambda array: held(array.view(wanted))


def _dtype_in(capsule: Any) -> Any:
    """Code, bits and lanes, as bytes in the capsule's own memory."""
    name = _name_of(capsule)
    start = _pointer_of(capsule, name) + _TENSOR_AT[name] + _DTYPE_AT
    return (ctypes.c_uint8 * 4).from_address(start)


def _is_known_layout() -> bool:
    return ctypes.sizeof(ctypes.c_void_p) == 8
