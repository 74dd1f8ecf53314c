"""`DistributedDataParallel`: a module whose gradients are those of all ranks' batches together."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import numpy

from pullback.core.arrays import namespace
from pullback.core.device import device
from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor
from pullback.distributed.algorithms.join import Join, Joinable, JoinHook
from pullback.distributed.call import Call
from pullback.distributed.ddp.buckets import GradBucket
from pullback.distributed.ddp.reducer import Reducer
from pullback.distributed.group import ProcessGroup
from pullback.distributed.reduction import ReduceOp
from pullback.distributed.world import group_of, takes_devices
from pullback.nn.modules.module import Module

__all__ = ["DistributedDataParallel"]

_CAP_MB = 25
_BROADCAST_BYTES = 64 << 20


class DistributedDataParallel(Module, Joinable):
    """Wraps a module: after `backward()` each rank's `.grad`s are the mean over all ranks.

    Making one is collective: ranks compare their parameters, then take rank 0's values.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> def train():
    ...     model = torch.nn.Linear(1, 1, bias=False)
    ...     parallel = torch.nn.parallel.DistributedDataParallel(model)
    ...     parallel(torch.tensor([[dist.get_rank() + 1.0]])).sum().backward()
    ...     return model.weight.grad.item()
    >>> dist.threads.run(train, 2)
    [1.5, 1.5]
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = True,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        *,
        overlap: bool | None = None,
    ) -> None:
        super().__init__()
        group = group_of(process_group)
        if group is None:
            raise ValueError("DistributedDataParallel: this rank is not in the process group.")
        self._check_parameters(module)
        _check_devices(module, device_ids, output_device)
        self.module = module
        self.process_group = group
        self.dim = dim
        self.broadcast_buffers = True if broadcast_buffers is None else broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self.bucket_bytes_cap = int((bucket_cap_mb or _CAP_MB) * (1 << 20))
        self.overlap = overlap
        self._comm_hook: tuple[Any, Any] | None = None
        self._join_config: Any = None
        if init_sync:
            _compare(module, group)
            held = module.state_dict(keep_vars=True)
            self._broadcast([held[name] for name in held if name not in self._ignored()])
        self._make_reducer()

    def _check_parameters(self, module: Module) -> None:
        if not any(parameter.requires_grad for parameter in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel: no parameter of the module requires grad, so there is "
                "nothing to average; call the module itself."
            )

    def _ignored(self) -> set[str]:
        """The names of what libraries, and `replicate`, want to be left alone."""
        return set(getattr(self.module, "_ddp_params_and_buffers_to_ignore", ()))

    def _make_reducer(self) -> None:
        ignored = self._ignored()
        named = [
            (name, parameter)
            for name, parameter in self.module.named_parameters()
            if parameter.requires_grad and name not in ignored
        ]
        self._averaged = [parameter for _, parameter in named]
        self.reducer = Reducer(
            named,
            self.process_group,
            cap=self.bucket_bytes_cap,
            as_views=self.gradient_as_bucket_view,
            find_unused=self.find_unused_parameters,
            static=self.static_graph,
            early=self.overlap,
            sparse=[
                layer.weight for layer in self.module.modules() if getattr(layer, "sparse", False)
            ],
        )
        self.reducer.hook = self._comm_hook

    # ------------------------------------------------------------------ forward

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The module's forward; afterwards the reducer waits for its backward."""
        self._prepare_ranks()
        output = self.module(*inputs, **kwargs)
        self._await_backward(output)
        return output

    def _prepare_ranks(self) -> None:
        self._check_frozen()
        if self._join_config is not None and self._join_config.enable:
            self._tell_joined(get_mode().grad and self.require_backward_grad_sync)
        if self.will_sync_module_buffers():
            named, ignored = self.module.named_buffers(), self._ignored()
            self._broadcast([buffer for name, buffer in named if name not in ignored])

    def _await_backward(self, output: Any) -> None:
        records = get_mode().grad
        syncs = records and self.require_backward_grad_sync
        if records:
            outputs = _tensors_in(output) if self.find_unused_parameters else ()
            self.reducer.begin(syncs=syncs, outputs=outputs)
        self.require_forward_param_sync = syncs

    def _check_frozen(self) -> None:
        for parameter in self._averaged:
            if not parameter.requires_grad:
                raise RuntimeError(
                    "DistributedDataParallel: a parameter that required grad when the module was "
                    "wrapped does not any more; wrap the module again after freezing."
                )

    def will_sync_module_buffers(self) -> bool:
        """Whether the next forward begins with rank 0's buffers."""
        return (
            self.require_forward_param_sync
            and self.broadcast_buffers
            and next(iter(self.module.buffers()), None) is not None
        )

    def _broadcast(self, tensors: list[Tensor], root: int = 0) -> None:
        """Give every rank the root's values, in a few large messages."""
        by_dtype: dict[Any, list[Tensor]] = {}
        for tensor in tensors:
            if isinstance(tensor, Tensor):
                by_dtype.setdefault((tensor._array.dtype, tensor.device), []).append(tensor)
        for same in by_dtype.values():
            start = 0
            while start < len(same):
                size, end = 0, start
                while end < len(same) and (end == start or size < _BROADCAST_BYTES):
                    size += same[end]._array.nbytes
                    end += 1
                self._broadcast_flat(same[start:end], root)
                start = end

    def _broadcast_flat(self, tensors: list[Tensor], root: int) -> None:
        xp = namespace(tensors[0]._array)
        flat = xp.concatenate([tensor._array.reshape(-1) for tensor in tensors])
        group = self.process_group
        text = f"values {flat.dtype.name}[{flat.size}] from {root}"
        call = Call("DistributedDataParallel", text, group.timeout)
        group.do(call, lambda: group.communicator.broadcast(call, flat, root), later=False)
        if group.rank() == root:
            return
        ends = numpy.cumsum([tensor._array.size for tensor in tensors])[:-1].tolist()
        for tensor, piece in zip(tensors, xp.split(flat, ends), strict=True):
            tensor.detach().copy_(_wrap(piece.reshape(tensor._array.shape)))

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backwards of forwards in here accumulate locally; the first one outside averages all."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    # ------------------------------------------------------------------ hooks, copies

    def register_comm_hook(self, state: object, hook: Callable[..., Any]) -> None:
        """Let `hook(state, bucket)` reduce the buckets; its future's tensor replaces each."""
        _check_hook(hook)
        if self._comm_hook is not None:
            raise RuntimeError("register_comm_hook: a hook is registered already; one is possible.")
        self._comm_hook = self.reducer.hook = (state, hook)

    def _set_static_graph(self) -> None:
        """As `static_graph=True`: every iteration uses the same parameters."""
        if not self.static_graph:
            self.static_graph = True
            self._make_reducer()

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """What is known of this module's communication, by torch's names."""
        sizes = [bucket.total * bucket.dtype.itemsize for bucket in self.reducer.buckets]
        return {
            "world_size": self.process_group.size(),
            "rank": self.process_group.rank(),
            "module_name": type(self.module).__name__,
            "backend_name": self.process_group.backend,
            "bucket_cap_bytes": self.bucket_bytes_cap,
            "bucket_sizes": ", ".join(map(str, sizes)),
            "broadcast_buffers": int(self.broadcast_buffers),
            "find_unused_parameters": int(self.find_unused_parameters),
            "gradient_as_bucket_view": int(self.gradient_as_bucket_view),
            "static_graph": int(self.static_graph),
            "num_parameter_tensors": len(self._averaged),
            "total_parameter_size_bytes": sum(p.nbytes for p in self._averaged),
        }

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        for name in ("process_group", "reducer", "_averaged"):
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        group = group_of(None)
        assert group is not None
        self.process_group = group
        self._make_reducer()

    # ------------------------------------------------------------------ ranks with fewer batches

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:
        """Inside, a rank that has no more batches takes part for those that have."""
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a rank does that has joined."""
        return _DDPJoinHook(self, kwargs.get("divide_by_initial_world_size", True))

    @property
    def join_device(self) -> Any:
        """The CPU."""
        return self._averaged[0].device

    @property
    def join_process_group(self) -> ProcessGroup:
        """The group that joins."""
        return self.process_group

    def _tell_joined(self, syncs: bool) -> None:
        """Before a forward: count those that still run, and tell the others what will follow."""
        Join.notify_join_context(self)
        flags = self._agree_with_joined(int(syncs), int(self.will_sync_module_buffers()), 1)
        whole = self._join_config.hooks_divide_by_initial
        self.reducer.divisor = self.process_group.size() if whole else int(flags[2])

    def _agree_with_joined(self, syncs: int, buffers: int, active: int) -> Any:
        flags = numpy.array([syncs, buffers, active], numpy.int64)
        group = self.process_group
        call = Call("DistributedDataParallel.join", "what follows", group.timeout)
        group.do(
            call, lambda: group.communicator.all_reduce(call, flags, ReduceOp.SUM), later=False
        )
        return flags


class _DDPJoinHook(JoinHook):
    def __init__(self, ddp: DistributedDataParallel, divide_by_initial: bool) -> None:
        self.ddp = ddp
        self.divide_by_initial = divide_by_initial

    def main_hook(self) -> None:
        """Answer one forward and backward of those that still run."""
        ddp = self.ddp
        syncs, buffers, _ = ddp._agree_with_joined(0, 0, 0)
        if buffers:
            ddp._broadcast(list(ddp.module.buffers()))
        if syncs:
            ddp.reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Take the model from a rank that ran to the end."""
        ddp, group = self.ddp, self.ddp.process_group
        who = numpy.array([group.rank() if is_last_joiner else -1], numpy.int64)
        call = Call("DistributedDataParallel.join", "last rank", group.timeout)
        group.do(call, lambda: group.communicator.all_reduce(call, who, ReduceOp.MAX), later=False)
        ddp._broadcast(list(ddp.module.state_dict(keep_vars=True).values()), int(who[0]))


def _wrap(array: Any) -> Tensor:
    from pullback.core.tensor import wrap

    return wrap(array)


def _check_devices(module: Module, device_ids: Any, output_device: Any) -> None:
    """A rank has one device, that of the module; it may be named, as in torch."""
    given = [*([] if device_ids in (None, [], [None]) else device_ids)]
    if output_device is not None:
        given.append(output_device)
    where = {parameter.device for parameter in module.parameters()}
    if any(place.type != "cpu" for place in where):
        takes_devices()
    if given and {place.type for place in where} == {"cpu"}:
        raise ValueError("DistributedDataParallel: device_ids are for GPUs; leave them out.")
    named = {device("cuda", one) if isinstance(one, int) else device(one) for one in given}
    if given and named != where:
        raise ValueError(
            f"DistributedDataParallel: device_ids name {sorted(map(str, named))}, the module is on "
            f"{sorted(map(str, where))}; a rank has one device."
        )


def _compare(module: Module, group: ProcessGroup) -> None:
    """Refuse parameters that differ between ranks in number, name, shape or dtype."""
    mine = [
        f"{name}: {parameter.dtype} {list(parameter.shape)}"
        + ("" if parameter.requires_grad else ", frozen")
        for name, parameter in module.named_parameters()
    ]
    number = int.from_bytes(blake2b("\n".join(mine).encode(), digest_size=7).digest(), "little")
    ends = numpy.array([number, -number], numpy.int64)
    call = Call("DistributedDataParallel", "parameters", group.timeout)
    group.do(call, lambda: group.communicator.all_reduce(call, ends, ReduceOp.MIN), later=False)
    if ends[0] == -ends[1]:
        return
    asked = Call("DistributedDataParallel", "names of parameters", group.timeout)
    text = "\n".join(mine).encode()
    given = group.do(asked, lambda: group.communicator.exchange(asked, text), later=False)
    raise RuntimeError(_first_difference(group.rank(), [one.decode().split("\n") for one in given]))


def _first_difference(rank: int, lists: Sequence[list[str]]) -> str:
    for other, theirs in enumerate(lists):
        if theirs == lists[0]:
            continue
        for number in range(max(len(theirs), len(lists[0]))):
            first = lists[0][number] if number < len(lists[0]) else "no such parameter"
            second = theirs[number] if number < len(theirs) else "no such parameter"
            if first != second:
                return (
                    f"rank {rank}: DistributedDataParallel: the ranks' modules differ, first in "
                    f"parameter {number}: rank 0 has {first}, rank {other} has {second}."
                )
    return f"rank {rank}: DistributedDataParallel: the ranks' modules differ."


def _tensors_in(value: Any) -> list[Tensor]:
    """Every tensor in an output, however nested."""
    found: list[Tensor] = []
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, Tensor):
            found.append(one)
        elif isinstance(one, (list, tuple)):
            stack.extend(one)
        elif isinstance(one, dict):
            stack.extend(one.values())
        elif dataclasses.is_dataclass(one) and not isinstance(one, type):
            stack.extend(getattr(one, field.name) for field in dataclasses.fields(one))
    return found


def _check_hook(hook: Any) -> None:
    if not callable(hook):
        raise TypeError(f"register_comm_hook: the hook is called, got {type(hook).__name__}.")
    signature = inspect.signature(hook, eval_str=False)
    bucket = signature.parameters.get("bucket")
    if bucket is None:
        raise ValueError("register_comm_hook: the hook's second parameter is called `bucket`.")
    if bucket.annotation not in (inspect.Parameter.empty, GradBucket) and not str(
        bucket.annotation
    ).endswith("GradBucket"):
        raise ValueError(
            f"register_comm_hook: `bucket` is a GradBucket, annotated as {bucket.annotation}."
        )
    returned = signature.return_annotation
    if returned is not inspect.Signature.empty and "Future" not in str(returned):
        raise ValueError(f"register_comm_hook: the hook returns a Future, annotated {returned}.")
