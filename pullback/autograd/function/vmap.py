"""A custom Function under vmap: by the user's own rule, or one generated from its other methods.

`batched` does it on whole batches, given a way to run a function under one (`RunBatched`);
`apply_at` calls it for the tensors of a running vmap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from pullback.autograd.function import errors as function_errors
from pullback.core.mode import changed, current, get_mode
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import tree_flatten, tree_unflatten
from pullback.engine.fitting import broadcast_dims
from pullback.transforms.batched import batched as hide
from pullback.transforms.batched import is_batched_at
from pullback.transforms.vmap_level import VmapLevel

Dims: TypeAlias = tuple[int | None, ...]
# run(function, args, in_dims, info): calls `function` once on all examples, each seeing one example
# of the arguments that have a dim; returns its results as a flat tuple, and where their batch is.
RunBatched: TypeAlias = Callable[..., tuple[tuple[Any, ...], Dims]]


class VmapInfo(NamedTuple):
    """What a vmap rule is told about the batch."""

    batch_size: int
    randomness: str


def missing_vmap(info: VmapInfo, in_dims: Any, *args: Any) -> Any:
    """Forward on a whole batch: returns `(output, out_dims)`.

    `in_dims` says for each argument which dimension counts the examples, None for those that have
    none; `out_dims` says the same of the results.
    """
    raise function_errors.no_vmap("This Function")


def batched(
    cls: Any, info: VmapInfo, in_dims: Dims, args: tuple[Any, ...], run: RunBatched
) -> tuple[Any, Any]:
    """Output and out_dims of a Function on a batch, by the rule that it has."""
    if has_generated_rule(cls):
        return _Generated(cls, info, in_dims, run).apply(args)
    return checked_rule(cls, cls.vmap(info, in_dims, *args))


def has_generated_rule(cls: Any) -> bool:
    """Whether vmap makes the rule; refused if it is unclear where the rule is to come from."""
    own = cls.vmap is not missing_vmap
    name = cls.__name__
    if own and cls.generate_vmap_rule:
        raise function_errors.two_vmap_rules(name)
    if not own and not cls.generate_vmap_rule:
        raise function_errors.no_vmap_rule(name)
    return not own


def checked_rule(cls: Any, returned: Any) -> tuple[Any, Any]:
    """What a vmap staticmethod returned, with one dim (or None) for each output."""
    name = cls.__name__
    if not isinstance(returned, tuple):
        raise function_errors.vmap_returned(name, f"a {type(returned).__name__}")
    if len(returned) != 2:
        raise function_errors.vmap_returned(name, f"a tuple of {len(returned)}")
    output, out_dims = returned
    return output, spread(out_dims, output, name)


def spread(dims: Any, output: Any, name: str) -> Any:
    """`out_dims` for every output: one dim stands for all that are below it."""
    if not isinstance(output, tuple | list):
        if dims is not None and not isinstance(dims, int):
            raise function_errors.out_dims_mismatch(name, dims, output)
        return dims
    if dims is None or isinstance(dims, int):
        return tuple(spread(dims, one, name) for one in output)
    if type(dims) is not type(output) or len(dims) != len(output):
        raise function_errors.out_dims_mismatch(name, dims, output)
    return tuple(spread(dim, one, name) for dim, one in zip(dims, output, strict=True))


# At a running vmap --------------------------------------------------------------------------------


def level_of(args: tuple[Any, ...], levels: tuple[Any, ...]) -> Any:
    """The innermost of `levels` at which an argument is batched, or None."""
    leaves = [leaf for arg in args for leaf in _leaves(arg)]
    for level in reversed(levels):
        if any(is_batched_at(leaf, level) for leaf in leaves):
            return level
    return None


def _leaves(arg: Any) -> list[Any]:
    return tree_flatten(arg)[0] if isinstance(arg, tuple | list | dict) else [arg]


def _split(arg: Any, level: Any) -> tuple[Any, Any]:
    """An argument with one level taken off, and its dims, nested as it is."""
    if isinstance(arg, tuple | list | dict):
        leaves, spec = tree_flatten(arg)
        pairs = [_split(leaf, level) for leaf in leaves]
        return tuple(tree_unflatten([pair[side] for pair in pairs], spec) for side in (0, 1))
    return (arg.value, arg.bdim) if is_batched_at(arg, level) else (arg, None)


def apply_at(cls: Any, args: tuple[Any, ...], level: Any) -> Any:
    """Apply a Function to tensors batched at `level`; its rule runs with that level removed."""
    pairs = [_split(arg, level) for arg in args]
    values, dims = (tuple(column) for column in zip(*pairs, strict=True))
    before = get_mode()
    try:
        current.set(level.below(before))
        info = VmapInfo(level.size, level.randomness)
        output, out_dims = batched(cls, info, dims, values, run_under_vmap)
    finally:
        current.set(before)
    return _wrapped(output, out_dims, level)


def _wrapped(output: Any, dims: Any, level: Any) -> Any:
    if isinstance(output, tuple):
        return tuple(_wrapped(one, dim, level) for one, dim in zip(output, dims, strict=True))
    if dims is None or not isinstance(output, Tensor):
        return output
    return hide(output, dims % (output._array.ndim or 1), level)


def run_under_vmap(
    function: Callable[..., Any], args: tuple[Any, ...], in_dims: Dims, info: VmapInfo
) -> tuple[tuple[Any, ...], Dims]:
    """Run `function` on all examples at once, in a vmap of its own."""
    level = VmapLevel(info.batch_size, info.randomness)
    inside = [
        arg if dim is None or not isinstance(arg, Tensor) else hide(arg, dim, level)
        for arg, dim in zip(args, in_dims, strict=True)
    ]
    mode = get_mode()
    try:
        current.set(changed(mode, levels=(*mode.levels, level)))
        results = function(*inside)
        pairs = [(r.value, r.bdim) if is_batched_at(r, level) else (r, None) for r in results]
    finally:
        current.set(mode)
        level.close()
    return tuple(value for value, _ in pairs), tuple(dim for _, dim in pairs)


# The generated rule -------------------------------------------------------------------------------


class _ExampleCtx:
    """The ctx that setup_context, backward and jvp see: of one example, while all run at once."""

    def __init__(self, ctx: Any, saved: tuple[Any, ...] = ()) -> None:
        self.__dict__["_pt_ctx"] = ctx
        self.__dict__["_pt_backward"] = ()
        self.__dict__["_pt_forward"] = ()
        self.__dict__["_pt_fixed"] = ()
        self.__dict__["saved_tensors"] = saved

    def save_for_backward(self, *tensors: Any) -> None:
        self.__dict__["_pt_backward"] = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        self.__dict__["_pt_forward"] = tensors

    def mark_dirty(self, *_: Any) -> None:
        raise function_errors.dirty_under_vmap(self._pt_ctx._forward_cls.__name__)

    def mark_non_differentiable(self, *outputs: Any) -> None:
        self.__dict__["_pt_fixed"] = outputs

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_pt_ctx"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_pt_"):
            raise AttributeError(f"ctx.{name}: names that begin with _pt_ are reserved.")
        setattr(self.__dict__["_pt_ctx"], name, value)


def _vmapped(cls: Any) -> Any:
    """The Function that runs the methods of `cls` under a batch. Its first argument is the call."""
    from pullback.autograd.function import Function, FunctionMeta

    known = cls._backward_cls.__dict__.get("_vmapped")
    if known is not None:
        return known
    name = f"Vmapped{cls.__name__}"
    key = f"_pt_{name}"  # a vmap of a vmap keeps two calls on one ctx

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        call, *operands = inputs
        setattr(_whole(ctx), key, call)
        call.setup_context(ctx, operands, output)

    members = {
        "forward": staticmethod(lambda call, *operands: call.forward(*operands)),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(lambda ctx, *g: (None, *getattr(ctx, key).backward(ctx, *g))),
        "jvp": staticmethod(lambda ctx, _, *t: getattr(ctx, key).jvp(ctx, *t)),
        "generate_vmap_rule": True,
    }
    made = FunctionMeta(name, (Function,), members)
    cls._backward_cls._vmapped = made
    return made


def _whole(ctx: Any) -> Any:
    """The ctx behind those of single examples."""
    while ctx.__class__ is _ExampleCtx:
        ctx = ctx._pt_ctx
    return ctx


class _Generated:
    """One call of a generated rule: runs the methods of `cls` under a batch."""

    def __init__(self, cls: Any, info: VmapInfo, in_dims: Dims, run: RunBatched) -> None:
        self.cls = cls
        self.info = info
        self.in_dims = in_dims
        self.run = run
        # Found out on the way: where the batch is in results and saved tensors, ...
        self.out_dims: Dims = ()
        self.backward_dims: Dims = ()
        self.forward_dims: Dims = ()
        # ... whether there is one bare result, shapes of one example, results without gradient.
        self.bare = False
        self.shapes: list[tuple[int, ...] | None] = []
        self.fixed: list[int] = []

    def apply(self, args: tuple[Any, ...]) -> tuple[Any, Any]:
        """Output and out_dims."""
        output = _vmapped(self.cls).apply(self, *args)
        return output, self.out_dims[0] if self.bare else self.out_dims

    def forward(self, *operands: Any) -> Any:
        """Forward of all examples."""

        def example(*one: Any) -> Any:
            result = self.cls.forward(*one)
            self.bare = not isinstance(result, tuple)
            return (result,) if self.bare else result

        outputs, self.out_dims = self.run(example, operands, self.in_dims, self.info)
        return outputs[0] if self.bare else tuple(outputs)

    def setup_context(self, ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        """setup_context of all examples; what it saves keeps its batch."""
        outputs = (output,) if self.bare else output
        saved_for_backward = 0

        def example(*values: Any) -> Any:
            nonlocal saved_for_backward
            one = _ExampleCtx(ctx)
            given, made = values[: len(inputs)], values[len(inputs) :]
            self.cls.setup_context(one, given, made[0] if self.bare else made)
            fixed = one._pt_fixed
            self.fixed = [n for n, out in enumerate(made) if any(out is f for f in fixed)]
            self.shapes = [tuple(v.shape) if isinstance(v, Tensor) else None for v in given]
            saved_for_backward = len(one._pt_backward)
            return (*one._pt_backward, *one._pt_forward)

        dims = (*self.in_dims, *self.out_dims)
        saved, found = self.run(example, (*inputs, *outputs), dims, self.info)
        ctx.save_for_backward(*saved[:saved_for_backward])
        ctx.save_for_forward(*saved[saved_for_backward:])
        self.backward_dims = found[:saved_for_backward]
        self.forward_dims = found[saved_for_backward:]
        ctx.mark_non_differentiable(*(outputs[number] for number in self.fixed))

    def backward(self, ctx: Any, *grads: Any) -> tuple[Any, ...]:
        """Backward of all examples, summed over the batch for arguments that all of them share."""
        name = f"{self.cls.__name__}Backward"

        def example(*values: Any) -> Any:
            one = _ExampleCtx(ctx, values[len(grads) :])
            returned = self.cls.backward(one, *values[: len(grads)])
            gradients = returned if isinstance(returned, tuple) else (returned,)
            if len(gradients) != len(self.shapes):
                raise function_errors.gradient_count(name, len(self.shapes), returned)
            return [_summed_to(g, size) for g, size in zip(gradients, self.shapes, strict=True)]

        values = (*grads, *ctx.saved_tensors)
        made, found = self.run(example, values, (*self.out_dims, *self.backward_dims), self.info)
        gradients: list[Any] = []
        for g, dim, want in zip(made, found, self.in_dims, strict=True):
            if g is not None and want is None:
                gradients.append(g if dim is None else g.sum(dim))
            else:
                gradients.append(_placed(g, dim, want, self.info.batch_size))
        return tuple(gradients)

    def jvp(self, ctx: Any, *tangents: Any) -> Any:
        """Jvp of all examples."""

        def example(*values: Any) -> Any:
            one = _ExampleCtx(ctx, values[len(tangents) :])
            made = self.cls.jvp(one, *values[: len(tangents)])
            return made if isinstance(made, tuple) else (made,)

        values = (*tangents, *ctx.saved_tensors)
        made, found = self.run(example, values, (*self.in_dims, *self.forward_dims), self.info)
        placed = [
            _placed(t, dim, want, self.info.batch_size)
            for t, dim, want in zip(made, found, self.out_dims, strict=True)
        ]
        return placed[0] if self.bare else tuple(placed)


def _summed_to(g: Any, shape: tuple[int, ...] | None) -> Any:
    """Undo broadcasting within one example; what does not fit is left for the engine to refuse."""
    if g is None or shape is None or tuple(g.shape) == shape:
        return g
    dims = broadcast_dims(tuple(g.shape), shape)
    if dims is None:
        return g
    return (g.sum(dims, keepdim=True) if dims else g).reshape(shape)


def _placed(value: Any, dim: int | None, want: int | None, size: int) -> Any:
    """A batched value with its batch at `want`; the same for all examples is repeated."""
    if value is None or want is None:
        return value
    if dim is None:
        return value.unsqueeze(want).expand(*value.shape[:want], size, *value.shape[want:])
    return value if dim == want else value.movedim(dim, want)
