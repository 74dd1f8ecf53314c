"""Gradients through calls on other workers: contexts, and the pass that crosses workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pullback.core.listing import only_public as _only_public
from pullback.distributed.autograd import contexts as _contexts

if TYPE_CHECKING:
    from pullback.distributed.rpc.agent import Agent

__all__ = ["DistAutogradContext", "backward", "context", "get_gradients", "is_available"]


DistAutogradContext = _contexts.Context


def is_available() -> bool:
    """Always, as `distributed.rpc` is."""
    return True


def _agent() -> Agent:
    from pullback.distributed.rpc.agent import current_agent

    return current_agent()


def backward(
    context_id: int, roots: Any, retain_graph: bool = False, *, mode: str = "smart"
) -> None:
    """Gradients of the roots' sum, into the contexts of all workers that had a part in them."""
    from pullback.distributed.autograd.engine import backward as run

    run(context_id, roots, retain_graph, mode=mode)


def get_gradients(context_id: int) -> dict[Any, Any]:
    """The gradients of this worker's leaves in a context."""
    return dict(_agent().contexts.need(context_id).gradients)


class context:  # noqa: N801 (torch's name)
    """Inside, calls on other workers are remembered, so that gradients find back through them.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed import autograd, rpc
    >>> def main():
    ...     rpc.init_rpc(f"worker{dist.get_rank()}")
    ...     found = None
    ...     if dist.get_rank() == 0:
    ...         x = torch.tensor(3.0, requires_grad=True)
    ...         with autograd.context() as context_id:
    ...             y = rpc.rpc_sync("worker1", torch.square, args=(x,))
    ...             autograd.backward(context_id, [y])
    ...             found = autograd.get_gradients(context_id)[x].item()
    ...     rpc.shutdown()
    ...     return found
    >>> dist.threads.run(main, 2)
    [6.0, None]
    """

    def __enter__(self) -> int:
        if _contexts.current_id() is not None:
            raise RuntimeError("This thread is in an autograd context already: they do not nest.")
        self._id = int(_agent().contexts.new().id)
        _contexts.enter(self._id)
        return self._id

    def __exit__(self, *error: object) -> None:
        _contexts.enter(None)
        _release(_agent(), self._id)


def _release(agent: Any, context_id: int) -> None:
    """Forget a context here and wherever it has been."""
    from pullback.distributed.autograd.engine import everywhere

    everywhere(agent, context_id, "release")


def _is_valid_context(context_id: int) -> bool:
    return _agent().contexts.has(context_id)


def _retrieve_context(context_id: int) -> Any:
    return _agent().contexts.need(context_id)


def _current_context() -> Any:
    known = _contexts.current_id()
    if known is None:
        raise RuntimeError("This thread is in no autograd context.")
    return _agent().contexts.need(known)


def _get_debug_info() -> dict[str, int]:
    known = _agent().contexts
    return {"num_autograd_contexts": len(known), "num_current_backward_passes": known.running()}


__dir__ = _only_public(globals())
