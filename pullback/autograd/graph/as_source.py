"""`source`: the backward pass as a Python function in torch's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pullback.core.ports import ports
from pullback.core.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["source"]


def source(
    loss: Tensor, inputs: Tensor | Sequence[Tensor] | None = None, *, target: str = "torch"
) -> Any:
    """The backward pass of `loss` as Python source: one function, with your lines as comments.

    It returns the gradients of `inputs`, by default of all leaves that the graph reaches; a loss
    of several elements has its gradient as the argument `grad`. What the graph keeps for backward
    is an argument, too. Equal parts are computed once, and zeros and ones are gone. The graph is
    kept, and no `.grad` is written.

    The text runs with `import torch` and with `import pullback as torch`; `target="numpy"` writes
    a module on NumPy alone. `save(path)` writes it, `load(torch)` makes it a function, calling the
    source runs it on the tensors that it was written with. `func.source` does the same for a
    function, such as `func.grad(f)`, before any graph is there.

    >>> import pullback as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> made = torch.autograd.graph.source((x.sin() * 3).sum())
    >>> print(made.text[made.text.index("def") :])  # doctest: +ELLIPSIS
    def backward(x):
        # backward of ...
        cos = torch.cos(x)
        mul_1 = cos * 3.0
        return (mul_1,)
    <BLANKLINE>
    >>> made()
    (tensor([ 1.6209, -1.2484]),)
    """
    return ports.backward_source(loss, inputs, target)
