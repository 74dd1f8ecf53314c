"""Torch's modules for models larger than a machine, of which only the names are here.

Libraries import them to ask `isinstance(p, DTensor)` long before anybody has such a tensor. The
names are classes and functions that refuse, for the reason in `core/explain/absent.txt`. Some are
other paths to what is here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from pullback.core.explain.absent import all_refusing

__all__ = ["MODULES", "add"]

# Packages before what is in them.
MODULES = {
    "tensor._utils": "compute_local_shape_and_global_offset",
    "tensor.device_mesh": "",
    "_tensor": "",
    "_tensor.api": "",
    "_tensor.device_mesh": "",
    "_tensor.experimental": "register_sharding",
    "_tensor.placement_types": "DTensorSpec TensorMeta",
    "checkpoint.hf_storage": "HuggingFaceStorageReader HuggingFaceStorageWriter",
    "_composable": "contract",
    "_composable.fsdp": "",
}
# Other paths of torch's to what is here.
_SAME_AS = {
    "tensor.device_mesh": "device_mesh",
    "_tensor": "tensor",
    "_tensor.api": "tensor",
    "_tensor.device_mesh": "device_mesh",
    "_tensor.experimental": "tensor.experimental",
    "_tensor.placement_types": "tensor.placement_types",
    "_composable": "ddp.replicate",
    "_composable.fsdp": "fsdp",
}


def add(package: str) -> None:
    """Put these modules below a package, where import finds them."""
    for name, listed in MODULES.items():
        path = f"{package}.{name}"
        module = ModuleType(path, f"`torch.distributed.{name}`: not here; its names refuse.")
        holds = any(other.startswith(f"{name}.") for other in MODULES)
        module.__spec__ = ModuleSpec(path, None, is_package=holds)
        if holds:
            module.__path__ = []
        refused = all_refusing(path, tuple(listed.split()))
        home = _SAME_AS.get(name)
        module.__dict__["__getattr__"] = refused if home is None else _first_in(home, refused)
        sys.modules[path] = module
        above, _, last = path.rpartition(".")
        if above in sys.modules:  # `checkpoint`, which is here, loads later
            setattr(sys.modules[above], last, module)


def _first_in(home: str, refused: Callable[[str], Any]) -> Callable[[str], Any]:
    """Names of a module that is here, which loads when it is asked, before those that refuse."""

    def found(name: str) -> Any:
        if not name.startswith("__"):
            module = import_module(f"pullback.distributed.{home}")
            if name in module.__all__:
                return getattr(module, name)
        return refused(name)

    return found
