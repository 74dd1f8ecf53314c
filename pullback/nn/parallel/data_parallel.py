"""DataParallel: splits a batch among GPUs; without any, it calls its module."""

from __future__ import annotations

from typing import Any

from pullback.nn.modules.module import Module

__all__ = ["DataParallel", "data_parallel"]


def _one_device(device_ids: Any) -> list[Any]:
    """The devices asked for, if it is at most one."""
    listed = list(device_ids or [])
    if len(listed) > 1:
        raise RuntimeError(
            f"DataParallel: {len(listed)} devices were asked for; batches are not split among "
            "devices here. Name one, or none."
        )
    return listed


class DataParallel(Module):
    """Holds a module as `module`, and calls it: there are no several devices to use.

    >>> import pullback as torch
    >>> model = torch.nn.DataParallel(torch.nn.Linear(2, 3))
    >>> list(model.state_dict())
    ['module.weight', 'module.bias']
    >>> model(torch.ones(4, 2)).shape
    torch.Size([4, 3])
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.device_ids = _one_device(device_ids)
        self.dim = dim
        self.module = module
        self.output_device = output_device

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    """Call a module once, as DataParallel does.

    >>> import pullback as torch
    >>> torch.nn.parallel.data_parallel(torch.nn.ReLU(), torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    _one_device(device_ids)
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*given, **(module_kwargs or {}))
