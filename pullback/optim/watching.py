"""Watches every optimizer of a program, without a change to it: for `pullback watch`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pullback import autograd
from pullback.autograd.answers.watch import Watch, watch
from pullback.core.origin import getframe, user_frame
from pullback.core.tensor import Tensor
from pullback.optim.optimizer import register_optimizer_step_post_hook

__all__ = ["watched"]


@contextmanager
def watched(path: str, serve: int | None = None) -> Iterator[list[Watch]]:
    """Inside, each optimizer's steps are noted; at the end each has a page.

    The first is written to `path`, others to names beside it. `serve` is a port on which the first
    is shown live, 0 for any.
    """
    runs: dict[int, Watch] = {}
    last: list[Any] = [None]
    plain = autograd.backward

    def noting(tensors: Any, *args: Any, **kwargs: Any) -> None:
        plain(tensors, *args, **kwargs)
        root = tensors if isinstance(tensors, Tensor) else next(iter(tensors), None)
        if isinstance(root, Tensor) and root.numel() == 1:
            last[0] = float(root.detach().item())

    def stepped(optimizer: Any, args: Any, kwargs: Any) -> None:
        run = runs.get(id(optimizer))
        if run is None:
            target = path if not runs else f"-{len(runs) + 1}".join(os.path.splitext(path))
            named = _named(optimizer)
            live: Any = serve if serve is not None and not runs else None
            run = watch(named, path=target, serve=False if live is None else live or True)
            runs[id(optimizer)] = run
        run.step(last[0])

    handle = register_optimizer_step_post_hook(stepped)
    autograd.backward = noting
    found: list[Watch] = []
    try:
        yield found
    finally:
        autograd.backward = plain
        handle.remove()
        for run in runs.values():
            run.close()
            found.append(run)


def _named(optimizer: Any) -> dict[str, Tensor]:
    """Its parameters, called as in the modules that the calling program holds."""
    names: dict[int, str] = {}
    frame = user_frame(getframe(2))
    while frame is not None:
        for scope in (frame.f_locals, frame.f_globals):
            for value in list(scope.values()):
                if hasattr(type(value), "named_parameters") and not isinstance(value, type):
                    for name, tensor in value.named_parameters():
                        names.setdefault(id(tensor), name)
        frame = frame.f_back
    tensors = [one for group in optimizer.param_groups for one in group["params"]]
    return {names.get(id(t), f"parameter {i}"): t for i, t in enumerate(tensors)}
