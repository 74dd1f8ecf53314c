"""The names of back ends: what `init_process_group(backend=...)` takes, and those of users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from pullback.distributed.reduction import ReduceOp

__all__ = ["Backend", "BackendConfig", "get_default_backend_for_device", "supports_complex"]


class Registered(NamedTuple):
    """A back end of the user's: what makes its groups, and how that is called."""

    create: Callable[..., Any]
    extended_api: bool


class Backend(str):
    """A back end's name, in small letters.

    >>> from pullback.distributed import Backend
    >>> Backend("GLOO") == Backend.GLOO == "gloo"
    True
    """

    __slots__ = ()

    UNDEFINED: ClassVar[str] = "undefined"
    GLOO: ClassVar[str] = "gloo"
    NCCL: ClassVar[str] = "nccl"
    UCC: ClassVar[str] = "ucc"
    MPI: ClassVar[str] = "mpi"
    XCCL: ClassVar[str] = "xccl"
    FAKE: ClassVar[str] = "fake"
    THREADS: ClassVar[str] = "threads"

    backend_list: ClassVar[list[str]] = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE, THREADS]
    default_device_backend_map: ClassVar[dict[str, str]] = {"cpu": GLOO, "cuda": NCCL}
    _plugins: ClassVar[dict[str, Registered]] = {}

    def __new__(cls, name: str) -> Backend:
        """The name in small letters."""
        if not isinstance(name, str):
            raise ValueError(f"A back end is named by a string, got {type(name).__name__}.")
        return super().__new__(cls, name.lower())

    @classmethod
    def register_backend(
        cls, name: str, func: Callable[..., Any], extended_api: bool = False, devices: Any = None
    ) -> None:
        """Let `init_process_group(name)` use a group of the user's, made by `func`.

        `func(store, rank, size, timeout)` returns an object with the methods of a ProcessGroup:
        `allreduce`, `broadcast`, `allgather`, `barrier`, `send`, `recv` ... that give works.
        """
        if name.lower() in cls.backend_list or hasattr(cls, name.upper()):
            raise RuntimeError(f"There is a back end {name!r} already.")
        cls._plugins[name.lower()] = Registered(func, extended_api)
        cls.backend_list.append(name.lower())
        setattr(cls, name.upper(), name.lower())


class BackendConfig:
    """Which back end serves which devices: `"cpu:gloo,cuda:nccl"`, or one for all.

    >>> from pullback.distributed import BackendConfig
    >>> BackendConfig("gloo")
    cpu:gloo,cuda:gloo
    """

    def __init__(self, backend: str) -> None:
        self.device_backend_map: dict[str, str] = {}
        name = str(backend).lower()
        if ":" not in name:
            devices = ("cuda",) if name == "nccl" else ("cpu", "cuda")
            self.device_backend_map = dict.fromkeys(devices, name)
            return
        for part in name.split(","):
            device, _, engine = part.partition(":")
            if not engine or device in self.device_backend_map:
                raise ValueError(f"A back end for each device, device:name; got {backend!r}.")
            self.device_backend_map[device] = engine

    def get_device_backend_map(self) -> dict[str, str]:
        """The back end of each type of devices."""
        return self.device_backend_map

    def __repr__(self) -> str:
        return ",".join(f"{device}:{name}" for device, name in self.device_backend_map.items())


def get_default_backend_for_device(device: Any) -> str:
    """What serves tensors of a device.

    >>> import pullback as torch
    >>> torch.distributed.get_default_backend_for_device("cpu")
    'gloo'
    """
    kind = str(device).partition(":")[0]
    if kind not in Backend.default_device_backend_map:
        raise ValueError(f"No back end is known for {device}.")
    return Backend.default_device_backend_map[kind]


def supports_complex(reduceOp: Any) -> bool:  # noqa: N803 (torch's name)
    """Whether an operation has a meaning for complex numbers.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> dist.supports_complex(dist.ReduceOp.SUM), dist.supports_complex(dist.ReduceOp.MAX)
    (True, False)
    """
    ordered = (ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT)
    return ReduceOp.of(reduceOp) not in (*ordered, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
