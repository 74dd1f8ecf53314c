"""Dispatch keys: the names under which kernels are registered, and which device each belongs to.

There is no dispatcher of keys here. A kernel is chosen by what the call is about (calling.py); the
keys are how programs written for torch say which kernel they mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.core.device import KINDS

DEVICE_KEYS = {
    "cpu": "CPU",
    "cuda": "CUDA",
    "meta": "Meta",
    "xpu": "XPU",
    "mps": "MPS",
    "hpu": "HPU",
    "ipu": "IPU",
    "mtia": "MTIA",
    "xla": "XLA",
    "lazy": "Lazy",
    "ve": "VE",
    "maia": "MAIA",
    "privateuseone": "PrivateUse1",
}
EXPLICIT = "CompositeExplicitAutograd"
IMPLICIT = "CompositeImplicitAutograd"
KEYS = frozenset(
    {
        *DEVICE_KEYS.values(),
        *(f"Autograd{key}" for key in DEVICE_KEYS.values()),
        *(f"Autocast{key}" for key in DEVICE_KEYS.values()),
        *(EXPLICIT, IMPLICIT, "CompositeExplicitAutogradNonFunctional", "Autograd"),
        *("AutogradOther", "ADInplaceOrView", "BackendSelect", "FuncTorchBatched"),
        *("FuncTorchGradWrapper", "FuncTorchVmapMode", "Functionalize", "Python"),
        *("PythonTLSSnapshot", "Conjugate", "Negative", "ZeroTensor", "Tracer", "Undefined"),
    }
)
# Where several kinds of device meet in one call, the later one here has the word.
PRECEDENCE = ("cpu", "privateuseone", "mps", "xpu", "cuda", "meta")


def checked_key(key: str) -> str:
    """`key`, with its short forms written out; RuntimeError for one that is not known."""
    if key == "":
        return IMPLICIT
    if key == "default":
        return EXPLICIT
    if key not in KEYS:
        raise RuntimeError(
            f"{key!r} is no dispatch key. Use a device's (CPU, CUDA, Meta ...), {EXPLICIT}, "
            f"{IMPLICIT}, Autograd, AutogradCPU, AutocastCPU, FuncTorchBatched, BackendSelect or "
            "ADInplaceOrView."
        )
    return key


def key_of_device(kind: str) -> str:
    """The key of a type of device; RuntimeError lists the valid ones."""
    if kind not in KINDS:
        raise RuntimeError(f"{kind!r} is no type of device; the valid ones are {', '.join(KINDS)}.")
    return DEVICE_KEYS.get(kind) or kind.upper()


def device_keys(device_types: Any) -> list[str]:
    """The keys for one type of device, several, or None: any that has no kernel of its own."""
    if device_types is None:
        return [EXPLICIT]
    if isinstance(device_types, str):
        return [key_of_device(device_types)]
    if not isinstance(device_types, Sequence | set | frozenset):
        raise TypeError(
            "device_types must be a type of device such as 'cpu', a sequence of them or None, got "
            f"{type(device_types).__name__}."
        )
    return [key_of_device(kind) for kind in device_types]


def winner(kinds: set[str]) -> str:
    """Which of the types of device in one call chooses the kernel."""
    return max(kinds, key=lambda kind: PRECEDENCE.index(kind) if kind in PRECEDENCE else 1)
