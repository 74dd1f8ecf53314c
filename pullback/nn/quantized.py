"""`torch.nn.quantized`: what quantisable models hold before they are, in floating point."""

from __future__ import annotations

from typing import Any

import pullback as torch
from pullback.core.explain.absent import refuse_others
from pullback.core.listing import only_public as _only_public
from pullback.nn.modules.linear import Identity
from pullback.nn.modules.module import Module

__all__ = ["DeQuantStub", "FloatFunctional", "QuantStub"]


class FloatFunctional(Module):
    """Sums, products and the like as a layer, so that a tool could observe their results.

    >>> import pullback as torch
    >>> torch.nn.quantized.FloatFunctional().add_relu(torch.tensor([-1.0, 2.0]), torch.ones(2))
    tensor([0., 3.])
    """

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = Identity()

    def forward(self, x: Any) -> Any:
        """Refuse: its methods are what is called."""
        raise RuntimeError("A FloatFunctional is used by its methods: add, mul, cat and so on.")

    def add(self, x: Any, y: Any) -> Any:
        """`x + y`."""
        return self.activation_post_process(torch.add(x, y))

    def add_scalar(self, x: Any, y: float) -> Any:
        """`x + y`, of a number."""
        return torch.add(x, y)

    def mul(self, x: Any, y: Any) -> Any:
        """`x * y`."""
        return self.activation_post_process(torch.mul(x, y))

    def mul_scalar(self, x: Any, y: float) -> Any:
        """`x * y`, of a number."""
        return torch.mul(x, y)

    def cat(self, x: Any, dim: int = 0) -> Any:
        """The tensors of a list, joined along `dim`."""
        return self.activation_post_process(torch.cat(x, dim=dim))

    def add_relu(self, x: Any, y: Any) -> Any:
        """`relu(x + y)`."""
        return self.activation_post_process(torch.relu(torch.add(x, y)))

    def matmul(self, x: Any, y: Any) -> Any:
        """`x @ y`."""
        return self.activation_post_process(torch.matmul(x, y))


class _Stub(Module):
    """Where a model would begin or end to compute in 8 bits; until it is converted, nothing."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Any) -> Any:
        """`x`, as it is."""
        return x


class QuantStub(_Stub):
    """The place where inputs would be quantised; before that, the input as it is.

    Args:
        qconfig: Accepted: it has no effect.
    """


class DeQuantStub(_Stub):
    """The place where results would come back to floating point; before that, as they are.

    Args:
        qconfig: Accepted: it has no effect.
    """


refuse_others(globals())
__dir__ = _only_public(globals())
