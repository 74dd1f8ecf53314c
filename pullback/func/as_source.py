"""`source`: what a function computes, derivatives and all, as a Python function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.ports import ports

__all__ = ["source"]


def source(function: Callable[..., Any], *args: Any, target: str = "torch") -> Any:
    """What `function(*args)` computes as Python source in torch's words, with your lines.

    For `func.grad(f)` that is forward and backward in one. Sizes and decisions are those of the
    example arguments; tensors that the function finds elsewhere become parameters. Equal parts are
    computed once, zeros and ones are gone, and writes in place are replaced. The text runs with
    `import torch` and with `import pullback as torch`; `target="numpy"` writes a module on NumPy
    alone. `autograd.graph.source` writes the backward pass of a graph that is there already.

    >>> import pullback as torch
    >>> made = torch.func.source(torch.func.grad(lambda x: x.sin() * x), torch.tensor(0.5))
    >>> print(made.text[made.text.index("    #") :])  # doctest: +ELLIPSIS
        # ...: ...
        sin = torch.sin(x)
        # backward of ...: ...
        cos = torch.cos(x)
        mul_3 = x * cos
        add = sin + mul_3
        return add
    <BLANKLINE>
    >>> made()
    tensor(0.9182)
    """
    return ports.function_source(function, args, target)
