"""`jit.save` and `jit.load`: programs of this package, as pickles."""

from __future__ import annotations

import io
import os
import zipfile
from typing import Any

from pullback import serialization
from pullback.jit._script import ScriptFunction, ScriptModule

__all__ = ["jit_module_from_flatbuffer", "load", "save", "save_jit_module_to_flatbuffer"]

_MARK = "pullback.jit"


def save(m: Any, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
    """Write a script module or function to a file: its state, and its classes by name.

    The file is for `jit.load` of this package, where the same Python classes can be imported; it
    is no archive that torch or C++ could read.

    >>> import io
    >>> import pullback as torch
    >>> file = io.BytesIO()
    >>> torch.jit.save(torch.jit.script(torch.nn.ReLU()), file)
    >>> _ = file.seek(0)
    >>> torch.jit.load(file)(torch.tensor([-1.0, 1.0]))
    tensor([0., 1.])
    """
    if not isinstance(m, ScriptModule | ScriptFunction):
        raise TypeError(
            f"jit.save takes what jit.script or jit.trace gave, not {type(m).__name__}; use "
            "torch.save."
        )
    extra = {
        name: value.encode() if isinstance(value, str) else value
        for name, value in (_extra_files or {}).items()
    }
    serialization.save({"format": _MARK, "program": m, "extra": extra}, f)


def load(
    f: Any, map_location: Any = None, _extra_files: dict[str, Any] | None = None, **options: Any
) -> Any:
    """Read what `jit.save` wrote; archives of torch's own compiled programs are refused.

    The file is a pickle: load only what you trust.
    """
    if isinstance(f, str | os.PathLike) and not os.path.exists(f):
        raise ValueError(f"There is no file {os.fspath(f)!r}.")
    _refuse_torchscript(f)
    found = serialization.load(f, map_location=map_location, weights_only=False)
    if not isinstance(found, dict) or found.get("format") != _MARK:
        raise RuntimeError("This file was not written by jit.save; use torch.load.")
    for name in _extra_files or {}:
        if _extra_files is not None and name in found["extra"]:
            _extra_files[name] = found["extra"][name]
    return found["program"]


def _refuse_torchscript(f: Any) -> None:
    place = f.tell() if hasattr(f, "tell") else None
    try:
        with zipfile.ZipFile(f if place is None else io.BytesIO(f.read())) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError):
        names = []
    finally:
        if place is not None:
            f.seek(place)
    if any(name.endswith("/constants.pkl") or "/code/" in name for name in names):
        raise NotImplementedError(
            "This is an archive of compiled TorchScript, which only torch can run. Save the "
            "module's state_dict() with torch and load that into the Python module."
        )


def _refuse(*args: Any, **kwargs: Any) -> Any:
    """Refused: flatbuffers of compiled programs are torch's alone."""
    raise NotImplementedError("Flatbuffers of compiled programs are not supported.")


jit_module_from_flatbuffer = save_jit_module_to_flatbuffer = _refuse
