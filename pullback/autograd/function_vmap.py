"""A custom Function under vmap: by the user's own rule, or one generated from its other methods.

`batched` does it on whole batches, given a way to run a function under one (`RunBatched`);
`apply_at` calls it for the tensors of a running vmap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from pullback.autograd import function_errors
from pullback.core.mode import changed, current, get_mode
from pullback.core.tensor import Tensor
from pullback.engine.accumulate import broadcast_dims
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
        return _generated(cls, info, in_dims, args, run)
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
    if not isinstance(dims, tuple | list) or len(dims) != len(output):
        raise function_errors.out_dims_mismatch(name, dims, output)
    return tuple(spread(dim, one, name) for dim, one in zip(dims, output, strict=True))


# At a running vmap --------------------------------------------------------------------------------


def level_of(args: tuple[Any, ...], levels: tuple[Any, ...]) -> Any:
    """The innermost of `levels` at which an argument is batched, or None."""
    for level in reversed(levels):
        if any(is_batched_at(arg, level) for arg in args):
            return level
    return None


def apply_at(cls: Any, args: tuple[Any, ...], level: Any) -> Any:
    """Apply a Function to tensors batched at `level`; its rule runs with that level removed."""
    pairs = [(a.value, a.bdim) if is_batched_at(a, level) else (a, None) for a in args]
    values, dims = (tuple(column) for column in zip(*pairs, strict=True))
    before = get_mode()
    current.set(level.below(before))
    try:
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
    current.set(changed(mode, levels=(*mode.levels, level)))
    try:
        results = function(*inside)
        pairs = [(r.value, r.bdim) if is_batched_at(r, level) else (r, None) for r in results]
    finally:
        current.set(mode)
        level.open = False
    return tuple(value for value, _ in pairs), tuple(dim for _, dim in pairs)


# The generated rule -------------------------------------------------------------------------------


class _ExampleCtx:
    """The ctx that setup_context, backward and jvp see: of one example, while all run at once."""

    def __init__(self, ctx: Any, saved: tuple[Any, ...] = ()) -> None:
        self.__dict__["_pt_ctx"] = ctx
        self.__dict__["_pt_backward"] = ()
        self.__dict__["_pt_forward"] = ()
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


def _generated(
    cls: Any, info: VmapInfo, in_dims: Dims, args: tuple[Any, ...], run: RunBatched
) -> tuple[Any, Any]:
    """Apply a Function whose methods are those of `cls`, each run under the batch."""
    from pullback.autograd.function import Function, FunctionMeta

    notes: dict[str, Any] = {}

    def forward(*operands: Any) -> Any:
        def example(*one: Any) -> Any:
            result = cls.forward(*one)
            notes["bare"] = not isinstance(result, tuple)
            return result if isinstance(result, tuple) else (result,)

        outputs, notes["out_dims"] = run(example, operands, in_dims, info)
        return outputs[0] if notes["bare"] else tuple(outputs)

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx._pt_out_dims = notes["out_dims"]
        outputs = (output,) if notes["bare"] else output
        _set_up(cls, ctx, info, in_dims, inputs, outputs, notes, run)

    def backward(ctx: Any, *grads: Any) -> Any:
        return _pulled_back(cls, ctx, info, in_dims, grads, run)

    def jvp(ctx: Any, *tangents: Any) -> Any:
        def example(*values: Any) -> Any:
            one = _ExampleCtx(ctx, values[len(tangents) :])
            made = cls.jvp(one, *values[: len(tangents)])
            return made if isinstance(made, tuple) else (made,)

        saved = ctx.saved_tensors
        dims = (*in_dims, *ctx._pt_forward_dims)
        made, found = run(example, (*tangents, *saved), dims, info)
        placed = [
            _placed(t, dim, want, info.batch_size)
            for t, dim, want in zip(made, found, ctx._pt_out_dims, strict=True)
        ]
        return placed[0] if notes["bare"] else tuple(placed)

    members = {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(backward),
        "jvp": staticmethod(jvp),
        "generate_vmap_rule": True,
    }
    vmapped: Any = FunctionMeta(f"Vmapped{cls.__name__}", (Function,), members)
    output = vmapped.apply(*args)
    dims = notes["out_dims"]
    return output, dims[0] if notes["bare"] else tuple(dims)


def _set_up(
    cls: Any,
    ctx: Any,
    info: VmapInfo,
    in_dims: Dims,
    inputs: tuple[Any, ...],
    outputs: tuple[Any, ...],
    notes: dict[str, Any],
    run: RunBatched,
) -> None:
    counts: dict[str, Any] = {}

    def example(*values: Any) -> Any:
        one = _ExampleCtx(ctx)
        given, made = values[: len(inputs)], values[len(inputs) :]
        cls.setup_context(one, given, made[0] if notes["bare"] else made)
        fixed = one.__dict__.get("_pt_fixed", ())
        counts["fixed"] = [n for n, out in enumerate(made) if any(out is f for f in fixed)]
        counts["backward"] = len(one._pt_backward)
        counts["shapes"] = [tuple(v.shape) if isinstance(v, Tensor) else None for v in given]
        return (*one._pt_backward, *one._pt_forward)

    dims = (*in_dims, *notes["out_dims"])
    saved, saved_dims = run(example, (*inputs, *outputs), dims, info)
    split = counts["backward"]
    ctx.save_for_backward(*saved[:split])
    ctx.save_for_forward(*saved[split:])
    ctx._pt_backward_dims, ctx._pt_forward_dims = saved_dims[:split], saved_dims[split:]
    ctx._pt_shapes = counts["shapes"]
    ctx.mark_non_differentiable(*(outputs[number] for number in counts["fixed"]))


def _pulled_back(
    cls: Any, ctx: Any, info: VmapInfo, in_dims: Dims, grads: tuple[Any, ...], run: RunBatched
) -> tuple[Any, ...]:
    """Backward of every example, summed over the batch for arguments that all of them share."""
    shapes = ctx._pt_shapes

    def example(*values: Any) -> Any:
        one = _ExampleCtx(ctx, values[len(grads) :])
        returned = cls.backward(one, *values[: len(grads)])
        gradients = returned if isinstance(returned, tuple) else (returned,)
        if len(gradients) != len(shapes):
            raise function_errors.gradient_count(f"{cls.__name__}Backward", len(shapes), returned)
        return tuple(_summed_to(g, shape) for g, shape in zip(gradients, shapes, strict=True))

    values = (*grads, *ctx.saved_tensors)
    dims = (*ctx._pt_out_dims, *ctx._pt_backward_dims)
    made, found = run(example, values, dims, info)
    gradients: list[Any] = []
    for g, dim, want in zip(made, found, in_dims, strict=True):
        if g is None:
            gradients.append(None)
        elif want is None:
            gradients.append(g if dim is None else g.sum(dim))
        else:
            gradients.append(_placed(g, dim, want, info.batch_size))
    return tuple(gradients)


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
