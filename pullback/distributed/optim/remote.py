"""`DistributedOptimizer`: parameters on many workers, an optimizer beside each of them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from pullback.distributed import autograd, rpc
from pullback.distributed.rpc.agent import current_agent, waited

__all__ = ["DistributedOptimizer"]

_stepping = threading.Lock()  # one optimizer at a time: steps on one worker may share parameters


class _Local:
    def __init__(self, optimizer_class: Any, rrefs: Sequence[Any], args: Any, kwargs: Any) -> None:
        self.parameters = [rref.local_value() for rref in rrefs]
        self.optimizer = optimizer_class(self.parameters, *args, **kwargs)

    def step(self, context_id: int) -> None:
        gradients = autograd.get_gradients(context_id)
        with _stepping:
            before = [parameter.grad for parameter in self.parameters]
            try:
                for parameter in self.parameters:
                    parameter.grad = gradients.get(parameter)
                self.optimizer.step()
            finally:
                for parameter, grad in zip(self.parameters, before, strict=True):
                    parameter.grad = grad


def _make(optimizer_class: Any, rrefs: Any, args: Any, kwargs: Any) -> _Local:
    return _Local(optimizer_class, rrefs, args, kwargs)


def _step(local: Any, context_id: int) -> None:
    local.local_value().step(context_id)


class DistributedOptimizer:
    """Steps the parameters behind RRefs with the gradients of an autograd context.

    Args:
        optimizer_class: of the optimizer made on each owner.
        params_rref: RRefs to the parameters.
        args: of the optimizers.
        kwargs: of the optimizers.
    """

    def __init__(
        self, optimizer_class: Any, params_rref: Sequence[Any], *args: Any, **kwargs: Any
    ) -> None:
        by_owner: dict[int, list[Any]] = {}
        for rref in params_rref:
            by_owner.setdefault(rref.owner().id, []).append(rref)
        self.is_functional_optim = False
        self.remote_optimizers = [
            rpc.remote(owner, _make, (optimizer_class, rrefs, args, kwargs))
            for owner, rrefs in by_owner.items()
        ]
        for made in self.remote_optimizers:
            waited(made._get_future(), current_agent().timeout, "The making of an optimizer")

    def step(self, context_id: int) -> None:
        """Step everywhere; the first error is raised when all have answered."""
        autograd._retrieve_context(context_id)
        futures = [
            rpc.rpc_async(made.owner(), _step, (made, context_id))
            for made in self.remote_optimizers
        ]
        failed: Exception | None = None
        for future in futures:
            try:
                waited(future, current_agent().timeout, "DistributedOptimizer.step()")
            except Exception as error:
                failed = failed or error
        if failed is not None:
            raise failed
