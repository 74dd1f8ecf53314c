"""`torch.distributed.tensor.debug`: which collectives a part of a program makes, and where."""

from __future__ import annotations

import sys
from collections import defaultdict
from contextvars import ContextVar
from types import FrameType, TracebackType
from typing import Any

from pullback.core import passes
from pullback.core.home import is_in_package, scope_name
from pullback.core.listing import only_public as _only_public
from pullback.distributed.call import Call
from pullback.distributed.tensor.dtensor import DTensor
from pullback.nn.modules.module import Module, register_module_forward_pre_hook

__all__ = ["CommDebugMode"]

# Torch's operators for what groups call, by their names here.
_OPERATORS = {
    "all_reduce": "allreduce_",
    "all_reduce_coalesced": "allreduce_coalesced_",
    "reduce": "reduce_",
    "broadcast": "broadcast_",
    "all_gather": "allgather_",
    "all_gather_into_tensor": "_allgather_base_",
    "gather": "gather_",
    "scatter": "scatter_",
    "reduce_scatter": "reduce_scatter_",
    "reduce_scatter_tensor": "_reduce_scatter_base_",
    "all_to_all": "alltoall_",
    "all_to_all_single": "alltoall_base_",
}
_FUNCTIONAL = {
    "all_reduce": "all_reduce",
    "broadcast": "broadcast",
    "all_gather": "all_gather_into_tensor",
    "all_gather_into_tensor": "all_gather_into_tensor",
    "reduce_scatter": "reduce_scatter_tensor",
    "reduce_scatter_tensor": "reduce_scatter_tensor",
    "all_to_all_single": "all_to_all_single",
}
# Whose calls torch makes by its functional collectives.
_CALLERS = ("pullback.distributed._functional_collectives", "pullback.distributed.tensor.layouts")

_active: ContextVar[tuple[CommDebugMode, ...]] = ContextVar("pullback_comm_debug", default=())

Counts = dict[str, int]


def saw(call: Call) -> None:
    """A group makes a call: tell who counts in this thread."""
    modes = _active.get()
    if not modes:
        return
    of_ddp = call.name == "DistributedDataParallel" and call.detail.startswith("bucket ")
    name = "all_reduce" if of_ddp else call.name
    if name not in _OPERATORS:
        return
    operator = f"c10d.{_OPERATORS[name]}"
    if name in _FUNCTIONAL and _is_functional():
        operator = f"c10d_functional.{_FUNCTIONAL[name]}"
    for mode in modes:
        mode._count(operator)


def _is_functional() -> bool:
    """Whether a collective is called by one of `_CALLERS`, with none of the user's between."""
    callers = [vars(sys.modules[name]) for name in _CALLERS if name in sys.modules]
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and is_in_package(scope_name(frame.f_globals)):
        if any(frame.f_globals is one for one in callers):
            return True
        frame = frame.f_back
    return False


class CommDebugMode:
    """Inside, collectives of this rank are counted: by torch's names of operators, as strings.

    What forward passes of modules call is counted for each of them as well; what backward passes
    call, for the whole alone.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.tensor.debug import CommDebugMode
    >>> def counted():
    ...     with CommDebugMode() as mode:
    ...         dist.all_reduce(torch.ones(2))
    ...         dist.all_reduce(torch.ones(3))
    ...     return mode.get_comm_counts(), mode.get_total_counts()
    >>> dist.threads.run(counted, 2)[0]
    ({'c10d.allreduce_': 2}, 2)
    """

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.comm_counts: Counts = defaultdict(int)
        self.comm_module_counts: dict[str, dict[str, Counts]] = {}
        self._names: dict[int, str] = {}
        self._depths: dict[str, int] = {}
        self._inside: list[str] = []
        self._leaving: list[Any] = []  # hooks of the modules that are running
        self._parameters: dict[str, dict[str, Any]] = {}
        self._placements: dict[str, Any] = {}

    def __enter__(self) -> CommDebugMode:
        if self in _active.get():
            raise RuntimeError("CommDebugMode: this one counts already; make another inside it.")
        self._clear()
        self._token = _active.set((*_active.get(), self))
        self._hook = register_module_forward_pre_hook(self._enter_module)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._hook.remove()
        for left in self._leaving:
            left.remove()
        _active.reset(self._token)

    # ------------------------------------------------------------------ counting

    def _count(self, operator: str) -> None:
        self.comm_counts[operator] += 1
        forward = passes.running.get() is None
        for place in ("Global", *(dict.fromkeys(self._inside) if forward else ())):
            ways = self.comm_module_counts.setdefault(place, {"forward": {}, "backward": {}})
            counts = ways["forward" if forward else "backward"]
            counts[operator] = counts.get(operator, 0) + 1

    def _enter_module(self, module: Module, args: Any) -> None:
        if self not in _active.get():  # another rank's, which is a thread
            return
        if not self._inside or id(module) not in self._names:
            self._name(module, type(module).__name__, len(self._inside))
        self._inside.append(self._names[id(module)])
        # Of the module's hooks it is the last: what the others call is the module's.
        self._leaving.append(module.register_forward_hook(self._leave_module, always_call=True))

    def _leave_module(self, module: Module, args: Any, output: Any) -> None:
        if self in _active.get() and self._inside:
            self._inside.pop()
            self._leaving.pop().remove()

    def _name(self, root: Module, called: str, depth: int) -> None:
        for path, module in root.named_modules():
            name = f"{called}.{path}" if path else called
            self._names[id(module)] = name
            self._depths[name] = depth + (path.count(".") + 1 if path else 0)
            own = dict(module.named_parameters(recurse=False))
            if own:
                self._parameters[name] = own
            for parameter, value in own.items():
                if isinstance(value, DTensor):
                    self._placements[f"{name}.{parameter}"] = value.placements

    # ------------------------------------------------------------------ what was counted

    def get_total_counts(self) -> int:
        """How many collectives there were."""
        return sum(self.comm_counts.values())

    def get_comm_counts(self) -> Counts:
        """How often each was called."""
        return dict(self.comm_counts)

    def get_parameter_info(self) -> dict[str, dict[str, Any]]:
        """The parameters of the modules that ran."""
        return self._parameters

    def get_sharding_info(self) -> dict[str, Any]:
        """The placements of those that lie over a mesh."""
        return self._placements

    def generate_comm_debug_tracing_table(self, noise_level: int = 3) -> str:
        """The counts of the whole and of each module as text; `noise_level` adds nothing here."""
        lines = []
        for place in ("Global", *self._depths):
            indent = "  " * (self._depths.get(place, -1) + 1)
            lines.append(f"{indent}{place}")
            for way, counts in self.comm_module_counts.get(place, {}).items():
                if counts:
                    lines.append(f"{indent}  {way.upper()} PASS")
                lines += [f"{indent}    *{name}: {number}" for name, number in counts.items()]
        return "\n".join(lines) + "\n"

    def log_comm_debug_tracing_table_to_file(
        self, file_name: str = "comm_mode_log.txt", noise_level: int = 3
    ) -> None:
        """Write that table to a file."""
        with open(file_name, "w", encoding="utf-8") as file:
            file.write(self.generate_comm_debug_tracing_table(noise_level))


__dir__ = _only_public(globals())
