"""`RemoteModule`: a module on another worker, called as if it were here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from pullback.core.listing import only_public as _only_public
from pullback.distributed import rpc
from pullback.futures import Future
from pullback.nn.modules.module import Module

__all__ = ["RemoteModule"]


def _make(module_cls: Callable[..., Module], args: Any, kwargs: Any, device: str) -> Module:
    return module_cls(*args, **kwargs).to(device)


def _call(module: Any, args: Any, kwargs: Any) -> Any:
    return module.local_value()(*args, **kwargs)


def _parameters(module: Any, *, recurse: bool) -> list[Any]:
    return [rpc.RRef(one) for one in module.local_value().parameters(recurse)]


def _train(module: Any, mode: bool) -> None:
    module.local_value().train(mode)


def _place(remote_device: str) -> tuple[Any, str]:
    """Worker and device of `worker1`, `worker1/cpu` or `rank:1/cpu`."""
    worker, _, device = str(remote_device).partition("/")
    if not worker:
        raise ValueError(f"RemoteModule: {remote_device!r} names no worker, as 'worker1/cpu' does.")
    named = not worker.startswith("rank:")
    return worker if named else int(worker.removeprefix("rank:")), device or "cpu"


class RemoteModule(Module):
    """Makes a module on another worker; calls go there, and gradients with them.

    Args:
        remote_device: the worker, and after a slash the device.
        module_cls: the module's class.
        args: of the class.
        kwargs: of the class.
        _module_interface_cls: must be None: there is no TorchScript.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed import rpc
    >>> from pullback.distributed.nn import RemoteModule
    >>> def called():
    ...     rank = dist.get_rank()
    ...     rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
    ...     found = None
    ...     if rank == 0:
    ...         found = RemoteModule("worker1", torch.nn.Linear, (2, 3))(torch.ones(1, 2)).shape
    ...     rpc.shutdown()
    ...     return found
    >>> dist.threads.run(called, 2)[0]
    torch.Size([1, 3])
    """

    def __init__(
        self,
        remote_device: str,
        module_cls: Callable[..., Module],
        args: Any = None,
        kwargs: Any = None,
        _module_interface_cls: Any = None,
    ) -> None:
        super().__init__()
        if _module_interface_cls is not None:
            raise NotImplementedError("RemoteModule: there is no TorchScript for an interface.")
        self.on, self.device = _place(remote_device)
        given = (module_cls, tuple(args or ()), dict(kwargs or {}), self.device)
        self.module_rref: Any = rpc.remote(self.on, _make, given)

    @staticmethod
    def init_from_module_rref(
        remote_device: str, module_rref: Any, _module_interface_cls: Any = None
    ) -> RemoteModule:
        """Around a module that is on the worker already."""
        made = RemoteModule.__new__(RemoteModule)
        Module.__init__(made)
        made.on, made.device = _place(remote_device)
        made.module_rref = module_rref
        return made

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module, and wait."""
        return rpc.rpc_sync(self.on, _call, (self.module_rref, args, kwargs))

    def forward_async(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call the module; the result comes later."""
        future: Future[Any] = rpc.rpc_async(self.on, _call, (self.module_rref, args, kwargs))
        return future

    def remote_parameters(self, recurse: bool = True) -> list[Any]:
        """RRefs to the parameters, as `DistributedOptimizer` takes them."""
        found: list[Any] = rpc.rpc_sync(
            self.on, _parameters, (self.module_rref,), {"recurse": recurse}
        )
        return found

    def get_module_rref(self) -> Any:
        """The RRef to the module."""
        return self.module_rref

    def train(self, mode: bool = True) -> RemoteModule:
        """Set the mode of the module there."""
        rpc.rpc_sync(self.on, _train, (self.module_rref, mode))
        return self

    def eval(self) -> RemoteModule:
        """The same, for evaluation."""
        return self.train(False)

    def __reduce__(self) -> Any:
        place = f"{'rank:' if isinstance(self.on, int) else ''}{self.on}/{self.device}"
        return RemoteModule.init_from_module_rref, (place, self.module_rref)

    def extra_repr(self) -> str:
        """Where it is."""
        return f"on {self.on}, {self.device}"


def _refused(name: str) -> Callable[..., NoReturn]:
    def method(self: RemoteModule, *args: Any, **kwargs: Any) -> NoReturn:
        raise ValueError(
            f"RemoteModule: {name}() is for modules that are here; this one is on {self.on}. Call "
            "it there, by rpc with get_module_rref()."
        )

    method.__name__ = method.__qualname__ = name
    method.__doc__ = "Refused: the module is elsewhere."
    return method


for _name in (
    *("register_buffer", "register_parameter", "add_module", "apply", "cuda", "cpu", "type"),
    *("float", "double", "half", "bfloat16", "to", "register_forward_hook", "state_dict"),
    *("register_forward_pre_hook", "register_backward_hook", "load_state_dict", "parameters"),
    *("named_parameters", "buffers", "named_buffers", "children", "named_children", "modules"),
    *("named_modules", "requires_grad_", "zero_grad", "share_memory"),
):
    setattr(RemoteModule, _name, _refused(_name))

__dir__ = _only_public(globals())
