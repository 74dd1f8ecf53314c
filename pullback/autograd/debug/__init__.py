"""Step through a backward pass: in the terminal as pdb does, or on a page that was recorded."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from pullback.autograd.answers.modules import ModuleNames
from pullback.autograd.answers.naming import names_in_program
from pullback.autograd.debug.recording import Recording
from pullback.autograd.debug.session import Quit, Session
from pullback.autograd.debug.stops import Breakpoint, Stop, Stopping
from pullback.core.tensor import Tensor
from pullback.core.view import edge_of
from pullback.engine.backward import backward

__all__ = ["Breakpoint", "Recording", "Stop", "debug"]


def debug(
    loss: Tensor,
    *breaks: Any,
    params: Any = None,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    page: str | os.PathLike[str] | bool = False,
    ask: Callable[[str], str] | None = None,
    tell: Callable[[str], Any] | None = None,
) -> Recording | None:
    """Run backward() from `loss`, stopping before and after nodes, with what they get and give.

    Each of `breaks` is where to stop: the name of a node or operator ("MulBackward0", "mul"), a
    line ("train.py:12", or 12), a module ("body.2", if `params` is the model), a condition on the
    gradient ("norm > 1e3", "nan"), or a function of the `Stop`. Without any it stops at once.

    The prompt knows pdb's commands: `s` the next stop, `n` the next node, `c` on to the next
    break, `b` and `cl` set and clear breaks, `l` the source, `src` the pass as source, `p` an
    expression, `w` the way from the loss, `q` the end. `grad`, `grads`, `saved`, `node` and `norm`
    are names there. `ask` and `tell` take the place of input and print.

    `page="steps.html"` writes a page instead, on which one can step forwards and backwards through
    the pass; nothing is asked. With `page=True` it is only returned.

    >>> import pullback as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> answers = iter(["p grad", "c"])
    >>> torch.autograd.graph.debug((x * 3).sum(), "mul", ask=lambda prompt: next(answers))
    ... # doctest: +ELLIPSIS
    > before MulBackward0, made at ...
    -> torch.autograd.graph.debug((x * 3).sum(), "mul", ask=lambda prompt: next(answers))
    gradient float32[2] norm 1.414, from 1 to 1, 0% zeros
    tensor([1., 1.])
    the pass is over: 2 nodes, 1 leaf
    """
    names = ModuleNames(params)
    variables = names_in_program([edge_of(loss)])
    if page is not False:
        recording = Recording(breaks, names)
        with Stopping(loss, names, recording.at, variables):
            backward(loss, gradient, retain_graph)
        if page is not True:
            recording.save(page)
        return recording
    session = Session(breaks, names, ask or input, tell or print, loss)
    try:
        with Stopping(loss, names, session.at, variables) as stopping:
            backward(loss, gradient, retain_graph)
    except Quit:
        session.tell("left the pass: no gradient was added to a leaf after this")
    else:
        session.tell(f"the pass is over: {stopping.counted()}")
    return None
