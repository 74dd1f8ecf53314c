"""Which kernel a call runs: by the devices of its tensors, or by its argument `device`."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

from pullback.core.device import device
from pullback.core.tensor import Tensor
from pullback.library.call import fake
from pullback.library.call.keys import DEVICE_KEYS, EXPLICIT, IMPLICIT, winner
from pullback.library.registry import FALLBACKS, Kernel, Operator


class _Keys(type):
    def __getattr__(cls, name: str) -> str:
        if name.startswith("_"):
            raise AttributeError(name)
        return name


class DispatchKey(metaclass=_Keys):
    """Torch's names of keys: each is its own name, as `Library.impl` takes it."""


class DispatchKeySet:
    """Stands for torch's sets of keys where a kernel asks for one; `redispatch` ignores it."""

    def __init__(self, *keys: str) -> None:
        pass

    def __and__(self, other: Any) -> DispatchKeySet:
        return self

    __or__ = __sub__ = __and__

    def __repr__(self) -> str:
        return "DispatchKeySet()"


KEYSET = DispatchKeySet()


class Chosen(NamedTuple):
    """A kernel and the key that it was found under."""

    kernel: Kernel
    key: str


def fallthrough_kernel(*args: Any, **kwargs: Any) -> NoReturn:
    """Registered for a key, it lets calls pass to the next one; it cannot be called itself.

    >>> import pullback as torch
    >>> with torch.library._scoped_library("doc_skip", "FRAGMENT") as lib:
    ...     _ = lib.define("twice(Tensor x) -> Tensor")
    ...     lib.impl("twice", lambda x: 2 * x, "CPU")
    ...     lib.impl("twice", torch.library.fallthrough_kernel, "Autograd")
    ...     torch.ops.doc_skip.twice(torch.ones(1))
    tensor([2.])
    """
    raise NotImplementedError(
        "fallthrough_kernel() only marks a dispatch key as skipped; it has nothing to run."
    )


fallthrough_kernel.marks_skipped = True  # type: ignore[attr-defined]  # how others tell it

BY_MODE = Chosen(Kernel(fallthrough_kernel, None), "Python")


def registered(operator: Operator, key: str) -> Kernel | None:
    """The kernel under a key, unless it is switched off or falls through."""
    kernel = operator.kernels.get(key)
    if kernel is None or key in operator.disabled or kernel.function is fallthrough_kernel:
        return None
    return kernel


def choose(operator: Operator, values: list[Any], tensors: list[Tensor]) -> Chosen:
    """The kernel for a call; NotImplementedError says how to register one."""
    if not tensors:
        return _without_tensors(operator, values)
    kinds = {tensor.device.type for tensor in tensors}
    return of_device(operator, kinds.pop() if len(kinds) == 1 else winner(kinds))


def of_device(operator: Operator, kind: str) -> Chosen:
    """The kernel for one type of device."""
    key = DEVICE_KEYS.get(kind) or kind.upper()
    if kind == "meta":
        return _for_meta(operator)
    kernel = registered(operator, key)
    if kernel is not None:
        return Chosen(kernel, key)
    for composite in (EXPLICIT, IMPLICIT):
        kernel = registered(operator, composite)
        if kernel is not None:
            return Chosen(kernel, composite)
    if key in FALLBACKS:
        return Chosen(_for_all(operator, FALLBACKS[key]), key)
    raise NotImplementedError(
        f"{operator.qualname} has no kernel for the device type {kind!r}; it has kernels for "
        f"{', '.join(operator.kernels) or 'none'}. Register one with "
        f"pullback.library.register_kernel({operator.qualname!r}, {kind!r}, function)."
    )


def _for_all(operator: Operator, kernel: Kernel) -> Kernel:
    """A fallback is told which operator it stands in for."""

    def run(*args: Any, **kwargs: Any) -> Any:
        return kernel.function(operator.overload, *args, **kwargs)

    return Kernel(run, kernel.where)


def _for_meta(operator: Operator) -> Chosen:
    """Shapes only: a kernel for all devices too, unless `custom_op` made it of one for data."""
    kernel = registered(operator, "Meta")
    if kernel is not None:
        return Chosen(kernel, "Meta")
    if operator.fake is None:
        keys = (EXPLICIT, IMPLICIT) if operator.kind == "define" else (IMPLICIT,)
        for key in keys:
            if (composite := registered(operator, key)) is not None:
                return Chosen(composite, key)
    return Chosen(fake.kernel_of(operator), "Meta")


def _without_tensors(operator: Operator, values: list[Any]) -> Chosen:
    select = registered(operator, "BackendSelect")
    if select is not None:
        return Chosen(select, "BackendSelect")
    specific = operator.kernels.keys() & (set(DEVICE_KEYS.values()) - {"Meta"})
    named = {a.name: v for a, v in zip(operator.schema.arguments, values, strict=True)}
    at = named.get("device")
    if isinstance(at, device):
        key = DEVICE_KEYS.get(at.type) or at.type.upper()
        if at.type == "meta":
            return _for_meta(operator)
        if specific and registered(operator, key) is None and EXPLICIT not in operator.kernels:
            raise RuntimeError(
                f"{operator.qualname} has no kernel for device='{at}'; it has kernels for "
                f"{', '.join(sorted(specific))}. Register one for {at.type!r}."
            )
        return of_device(operator, at.type)
    for key in (EXPLICIT, IMPLICIT, "CPU"):
        kernel = registered(operator, key)
        if kernel is not None:
            return Chosen(kernel, key)
    return of_device(operator, "cpu")


def for_autograd(operator: Operator, tensors: list[Tensor]) -> Kernel | None:
    """The kernel registered in the place of autograd, if there is one."""
    if not any(key.startswith(("Autograd", "AD")) for key in operator.kernels):
        return None
    kind = winner({tensor.device.type for tensor in tensors}) if tensors else "cpu"
    own = DEVICE_KEYS.get(kind) or kind.upper()
    for key in (f"Autograd{own}", "Autograd", "ADInplaceOrView"):
        kernel = registered(operator, key)
        if kernel is not None:
            return kernel
    return None
