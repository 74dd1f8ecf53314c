"""ZeRO, stage 1: every rank keeps the optimizer's state of its share of the parameters alone.

After a step each rank has new values for its share; one gathering gives them to all. Shares are of
whole parameters, largest first to whoever has least, so that they are nearly equal.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Any

import numpy

from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor, wrap
from pullback.core.version import bump
from pullback.distributed import collectives
from pullback.distributed.algorithms.join import Join, Joinable, JoinHook
from pullback.distributed.call import Call
from pullback.distributed.group import ProcessGroup
from pullback.distributed.world import group_of
from pullback.optim.optimizer import Optimizer

__all__ = ["ZeroRedundancyOptimizer"]


class _Steps(JoinHook):
    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self._optimizer = optimizer

    def main_hook(self) -> None:
        """Step: its share is needed by all."""
        self._optimizer.step()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An optimizer whose state is spread over the ranks.

    Args:
        params: all parameters, the same on all ranks, with gradients that are averaged already.
        optimizer_class: of the optimizer that each rank has for its share.
        process_group: whose ranks take part; None is all.
        parameters_as_bucket_view: accepted; values are gathered in flat memory in any case.
        overlap_with_ddp: must be False.
        defaults: options of the optimizer.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> def train():
    ...     model = torch.nn.Linear(4, 4)
    ...     torch.nn.init.ones_(model.weight)
    ...     optimizer = dist.optim.ZeroRedundancyOptimizer(
    ...         model.parameters(), torch.optim.Adam, lr=0.1
    ...     )
    ...     model(torch.ones(1, 4)).sum().backward()
    ...     optimizer.step()
    ...     return round(model.weight[0, 0].item(), 4), len(optimizer.optim.state)
    >>> dist.threads.run(train, 2)
    [(0.9, 1), (0.9, 1)]
    """

    def __init__(
        self,
        params: Iterable[Any],
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise ValueError("ZeroRedundancyOptimizer: overlap_with_ddp=True is not possible here.")
        group = group_of(process_group)
        if group is None:
            raise ValueError("ZeroRedundancyOptimizer: this rank is not in the process group.")
        self.process_group: ProcessGroup = group
        self.optim: Any = None
        self._optimizer_class, self._options = optimizer_class, defaults
        self._whole: dict[str, Any] | None = None
        self._join_config: Any = None
        super().__init__(params, defaults)
        self._share_out()

    # ------------------------------------------------------------------ shares

    def _share_out(self) -> None:
        size = self.process_group.size()
        self._parameters: list[Tensor] = [p for g in self.param_groups for p in g["params"]]
        loads = [0] * size
        self._owner: list[int] = [0] * len(self._parameters)
        by_size = sorted(
            range(len(self._parameters)), key=lambda n: (-self._parameters[n].numel(), n)
        )
        for number in by_size:
            least = loads.index(min(loads))
            self._owner[number] = least
            loads[least] += max(self._parameters[number].numel(), 1)
        groups = []
        first = 0
        for group in self.param_groups:
            mine = [
                parameter
                for number, parameter in enumerate(group["params"], first)
                if self._owner[number] == self.process_group.rank()
            ]
            first += len(group["params"])
            groups.append({**group, "params": mine})
        self.optim = self._optimizer_class(groups, **self._options)
        for group, local in zip(self.param_groups, self.optim.param_groups, strict=True):
            for key, value in local.items():
                group.setdefault(key, value)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Take more parameters in; shares are made anew, and keep the state they have."""
        super().add_param_group(param_group)
        if self.optim is None:
            return
        before = self.optim.state
        if before:
            raise RuntimeError(
                "ZeroRedundancyOptimizer: add parameters before the first step; their shares would "
                "move state between ranks."
            )
        self._share_out()

    # ------------------------------------------------------------------ step

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Step on this rank's share, then take the others' values."""
        Join.notify_join_context(self)
        for group, local in zip(self.param_groups, self.optim.param_groups, strict=True):
            for key, value in group.items():  # what schedulers have changed
                if key != "params":
                    local[key] = value
        self._whole = None
        loss = (
            self.optim.step(closure, **kwargs) if closure is not None else self.optim.step(**kwargs)
        )
        self._gather()
        return loss

    def _gather(self) -> None:
        """Every rank's share of values, for all, in one message for each dtype."""
        size = self.process_group.size()
        for dtype in dict.fromkeys(parameter._array.dtype for parameter in self._parameters):
            shares: list[list[Tensor]] = [[] for _ in range(size)]
            for parameter, owner in zip(self._parameters, self._owner, strict=True):
                if parameter._array.dtype == dtype:
                    shares[owner].append(parameter)
            longest = max(sum(one.numel() for one in share) for share in shares)
            mine = numpy.zeros(longest, dtype)
            start = 0
            for parameter in shares[self.process_group.rank()]:
                mine[start : start + parameter.numel()] = parameter._array.reshape(-1)
                start += parameter.numel()
            rows = numpy.empty((size, longest), dtype)
            collectives.all_gather_into_tensor(wrap(rows), wrap(mine), self.process_group)
            self._take(shares, rows)

    def _take(self, shares: list[list[Tensor]], rows: Any) -> None:
        for rank, share in enumerate(shares):
            if rank == self.process_group.rank():
                continue
            start = 0
            for parameter in share:
                piece = rows[rank, start : start + parameter.numel()]
                numpy.copyto(parameter._array, piece.reshape(parameter._array.shape))
                bump(parameter, "ZeroRedundancyOptimizer.step")
                start += parameter.numel()

    # ------------------------------------------------------------------ uneven inputs

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a rank does that has joined: it steps with the others, which have its gradients."""
        return _Steps(self)

    @property
    def join_device(self) -> Any:
        """Where its parameters are."""
        return self._parameters[0].device

    @property
    def join_process_group(self) -> ProcessGroup:
        """The group that joins."""
        return self.process_group

    # ------------------------------------------------------------------ state

    def local_state_dict(self) -> dict[str, Any]:
        """The state of this rank's share, by the numbers of all parameters."""
        written = self.optim.state_dict()
        place = {id(parameter): n for n, parameter in enumerate(self._parameters)}
        mine = [place[id(p)] for group in self.optim.param_groups for p in group["params"]]
        state = {mine[number]: value for number, value in written["state"].items()}
        groups = []
        first = 0
        for group, local in zip(self.param_groups, written["param_groups"], strict=True):
            count = len(group["params"])
            groups.append({**local, "params": list(range(first, first + count))})
            first += count
        return {"state": state, "param_groups": groups}

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Bring all shares' state to one rank, whose `state_dict()` then has it. All call this."""
        group = self.process_group
        local = self.local_state_dict()
        call = Call("ZeroRedundancyOptimizer", f"state to {to}", group.timeout)
        data = pickle.dumps(local["state"])
        given = group.do(call, lambda: group.communicator.exchange(call, data), later=False)
        if group.rank() == to:
            local["state"] = {n: v for one in given for n, v in pickle.loads(one).items()}
            local["state"] = dict(sorted(local["state"].items()))
            self._whole = local

    def state_dict(self) -> dict[str, Any]:
        """The whole state, as the optimizer of one process would write it."""
        if self._whole is None:
            raise RuntimeError(
                "ZeroRedundancyOptimizer.state_dict(): the state is spread over the ranks; call "
                f"consolidate_state_dict(to={self.process_group.rank()}) on all ranks first."
            )
        return self._whole

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take this rank's share of a whole state; or of that of `local_state_dict()`."""
        place = {id(parameter): n for n, parameter in enumerate(self._parameters)}
        mine = [place[id(p)] for group in self.optim.param_groups for p in group["params"]]
        here = {number: n for n, number in enumerate(mine)}
        groups, first = [], 0
        for given, local in zip(state_dict["param_groups"], self.optim.param_groups, strict=True):
            count = len(local["params"])
            groups.append({**given, "params": list(range(first, first + count))})
            first += count
        state = {here[n]: v for n, v in state_dict["state"].items() if n in here}
        self.optim.load_state_dict({"state": state, "param_groups": groups})
        for group, local in zip(self.param_groups, self.optim.param_groups, strict=True):
            group.update({key: value for key, value in local.items() if key != "params"})


__dir__ = _only_public(globals())
