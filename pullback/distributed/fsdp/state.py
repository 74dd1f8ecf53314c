"""When a sharded module's parameters are gathered and given back: around forward and backward.

Before forward they are gathered; after it they are given back, if they are to be, and hooks on the
outputs gather them again when gradients come. They are given back for good when gradients have
passed the inputs, or all parameters have theirs; what no hook has seen is done at the pass's end.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from pullback.autograd.function import Function
from pullback.autograd.graph import queue_callback
from pullback.core import passes
from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor
from pullback.distributed.fsdp.groups import ParameterGroup
from pullback.distributed.tensor.dtensor import DTensor
from pullback.nn.modules.module import Module
from pullback.utils._pytree import tree_flatten, tree_map, tree_unflatten

__all__ = ["ShardedState", "state_of"]


def state_of(module: Module) -> ShardedState | None:
    """What `fully_shard` has made of a module; None where it has not been called."""
    found: ShardedState | None = vars(module).get("_fsdp_state")
    return found


class _Root:
    """What the sharded modules below one outermost module share."""

    def __init__(self, modules: Sequence[Module]) -> None:
        every = [s for one in modules for m in one.modules() if (s := state_of(m)) is not None]
        self.states = list(dict.fromkeys(every))
        self.order: list[ShardedState] = []  # as forward comes to them, the first time
        self.complete = False
        self.in_pass = False

    def came(self, state: ShardedState) -> None:
        if not self.complete and state not in self.order:
            self.order.append(state)

    def neighbours(self, state: ShardedState, step: int) -> list[ShardedState]:
        """Who comes next, in forward or backward order."""
        if not self.complete or state not in self.order:
            return []
        place = self.order.index(state) + step
        return [self.order[place]] if 0 <= place < len(self.order) else []

    def begin_pass(self) -> None:
        """Once in each backward pass: have its end told."""
        if not self.in_pass:
            self.in_pass = True
            queue_callback(self._end_pass)

    def _end_pass(self) -> None:
        self.in_pass = False
        for state in self.states:
            state.end_pass()


class ShardedState:
    """The hooks of a sharded module, or of several that are gathered together.

    Of several, parameters are given back when all of them have run; in backward, when gradients
    have passed the inputs of all that ran. Whoever comes later than that gathers again.
    """

    def __init__(
        self, modules: Sequence[Module], group: ParameterGroup, reshard: bool | None
    ) -> None:
        self.modules, self.group = list(modules), group
        self.reshards_after_forward = reshard  # None: unless it is outermost
        self.reshards_after_backward = True
        self.next_forward: Sequence[ShardedState] | None = None
        self.next_backward: Sequence[ShardedState] | None = None
        self._root: _Root | None = None
        self._ran: set[int] = set()  # modules, in this forward
        self._leads_on: dict[int, bool] = {}  # whether gradients will leave by a module's inputs
        self._passed: set[int] = set()  # modules whose inputs they have left by, in this backward
        for number, one in enumerate(group.parameters):
            if one.whole.is_floating_point() or one.whole.is_complex():
                one.whole.requires_grad_()  # one that is frozen now may be trained later
                one.whole.register_post_accumulate_grad_hook(partial(self._arrived, number))
                one.whole.requires_grad_(one.requires_grad)
        for module in self.modules:
            module.register_forward_pre_hook(self.before_forward, prepend=True, with_kwargs=True)
            module.register_forward_hook(self.after_forward)
            # What is written to files, or read from them, are parts.
            module.register_state_dict_pre_hook(lambda *_: self.group.give_back())
            module.register_load_state_dict_pre_hook(lambda *_: self.group.give_back())

    # ------------------------------------------------------------------ forward

    def _find_root(self) -> _Root:
        """The outermost module that is called makes what all below it share."""
        if self._root is None:
            root = _Root(self.modules)
            for state in root.states:
                state._root = root
            if self.reshards_after_forward is None:
                self.reshards_after_forward = False
        assert self._root is not None
        return self._root

    @property
    def is_root(self) -> bool:
        """Whether no sharded module is around this one."""
        return self._root is not None and self._root.states[0] is self

    def before_forward(self, module: Module, args: Any, kwargs: Any) -> Any:
        """Gather; note when gradients leave the module again."""
        root = self._find_root()
        root.came(self)
        self.group.gather()
        if self.group.overlaps and passes.running.get() is None:
            following = self.next_forward
            for state in root.neighbours(self, 1) if following is None else following:
                state.group.begin_gathering(later=True)
        policy = self.group.policy
        if policy.param_dtype is not None and policy.cast_forward_inputs:
            args, kwargs = tree_map(partial(_cast, dtype=policy.param_dtype), (args, kwargs))
        return self._marked(id(module), args, kwargs)

    def _marked(self, module: int, args: Any, kwargs: Any) -> Any:
        """The inputs, through a node that gradients pass when they have passed the module."""
        flat, form = tree_flatten((args, kwargs))
        places = [n for n, one in enumerate(flat) if isinstance(one, Tensor) and one.requires_grad]
        self._leads_on[module] = leads_on = bool(places) and get_mode().grad
        if leads_on:
            made = _Passed.apply(self, module, *[flat[n] for n in places])
            for place, one in zip(places, made, strict=True):
                flat[place] = one
        return tree_unflatten(flat, form)

    def after_forward(self, module: Module, args: Any, output: Any) -> Any:
        """Give back, and have gradients of the outputs gather again."""
        root = self._find_root()
        computed_again = passes.running.get() is not None  # by a checkpoint
        if not computed_again:
            self._ran.add(id(module))
            all_ran = len(self._ran) == len(self.modules)
            if all_ran:
                self._ran.clear()
                root.complete = root.complete or self.is_root
            reshards = self.reshards_after_forward
            if not get_mode().grad or (all_ran and (reshards or reshards is None)):
                self.group.give_back(for_backward=get_mode().grad)
        if self.group.policy.output_dtype is not None:
            output = tree_map(partial(_cast, dtype=self.group.policy.output_dtype), output)
        for one in tree_flatten(output)[0]:
            if isinstance(one, Tensor) and one.requires_grad:
                one.register_hook(self._before_backward)
        return output

    # ------------------------------------------------------------------ backward

    def _before_backward(self, gradient: Tensor) -> None:
        root = self._find_root()
        root.begin_pass()
        self.group.gather()
        if self.group.overlaps:
            following = self.next_backward
            for state in root.neighbours(self, -1) if following is None else following:
                state.group.begin_gathering(later=True)

    def _arrived(self, number: int, whole: Tensor) -> None:
        gradient, whole.grad = whole.grad, None
        assert gradient is not None
        if isinstance(gradient, DTensor):
            gradient = gradient.redistribute(placements=whole.placements).to_local()  # type: ignore[attr-defined]  # a DTensor too
        self._find_root().begin_pass()
        if self.group.arrived(number, gradient.detach()):
            self.group.end_pass()
            every = all(one.requires_grad for one in self.group.parameters)
            leaving = {module for module, leads_on in self._leads_on.items() if leads_on}
            if every and leaving <= self._passed:
                self._give_back()

    def passed_inputs(self, module: int) -> None:
        """Gradients have left a module."""
        self._passed.add(module)
        if self._leads_on.keys() <= self._passed:
            self._give_back()

    def _give_back(self) -> None:
        if self.reshards_after_backward:
            self.group.give_back()

    def end_pass(self) -> None:
        """What a pass has left undone: parameters that got no gradient, modules without one."""
        self.group.end_pass()
        self._passed.clear()
        self._give_back()


class _Passed(Function):
    """The inputs themselves; its backward runs when those of the module's nodes have."""

    @staticmethod
    def forward(ctx: Any, state: ShardedState, module: int, *tensors: Tensor) -> Any:
        ctx.state, ctx.module = state, module
        ctx.set_materialize_grads(False)
        return tuple(one.view_as(one) for one in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        ctx.state.passed_inputs(ctx.module)
        return None, None, *grads


def _cast(one: Any, dtype: Any) -> Any:
    if isinstance(one, Tensor) and one.is_floating_point() and one.dtype != dtype:
        return one.to(dtype)
    return one
