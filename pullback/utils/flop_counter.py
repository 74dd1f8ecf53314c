"""FlopCounterMode: how many multiplications and additions a program takes, by module and operator.

Counted are products of matrices and convolutions, forward and backward, as torch counts them: an
addition and a multiplication are two. What the same program takes on torch is what is reported,
under torch's names of operators.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import wraps
from math import prod
from typing import Any

from pullback import ops
from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.library.overload import OpOverloadPacket
from pullback.utils._python_dispatch import TorchDispatchMode
from pullback.utils._pytree import tree_map
from pullback.utils.module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

Formula = Callable[..., int]
Shape = Sequence[int]
aten: Any = ops.aten
flop_registry: dict[Any, Formula] = {}
_GLOBAL = "Global"


def get_shape(value: Any) -> Any:
    """The shape of a tensor; anything else itself."""
    return value.shape if isinstance(value, Tensor) else value


def shape_wrapper(formula: Formula) -> Formula:
    """A formula of shapes as one of tensors."""

    @wraps(formula)
    def of_tensors(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        shapes, named, out = tree_map(get_shape, (args, kwargs, out_val))
        return formula(*shapes, out_shape=out, **named)

    return of_tensors


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Formula], Formula]:
    """A decorator: this function counts the operations of these operators.

    It gets the arguments of the call with shapes for tensors, and `out_shape`; with `get_raw` the
    tensors themselves, and `out_val`.

    Example:
        >>> import pullback as torch
        >>> from pullback.utils.flop_counter import FlopCounterMode, register_flop_formula
        >>> @register_flop_formula(torch.ops.aten.relu)
        ... def relu_flop(shape, *args, out_shape=None, **kwargs):
        ...     return shape.numel()
        >>> with FlopCounterMode(display=False) as counter:
        ...     _ = torch.ones(5).relu()
        >>> counter.get_total_flops()
        5
        >>> del flop_registry[torch.ops.aten.relu]
    """

    def register(formula: Formula) -> Formula:
        counted = formula if get_raw else shape_wrapper(formula)
        for target in targets if isinstance(targets, list | tuple) else [targets]:
            if not isinstance(target, OpOverloadPacket):
                raise ValueError(
                    "register_flop_formula: formulas are for operators as torch.ops.mylib.foo "
                    f"names them, with all their overloads, not for {target!r}."
                )
            if target in flop_registry:
                raise RuntimeError(
                    f"register_flop_formula: {target} has a formula already. Delete it from "
                    "flop_registry first, or pass custom_mapping= to FlopCounterMode."
                )
            flop_registry[target] = counted
        return formula

    return register


# Formulas of shapes, under torch's names ----------------------------------------------------------


@register_flop_formula(aten.mm)
def mm_flop(
    a_shape: Shape, b_shape: Shape, *args: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    """Of a product of matrices."""
    return 2 * prod(a_shape) * b_shape[-1]


@register_flop_formula(aten.addmm)
def addmm_flop(
    self_shape: Any, a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any
) -> int:
    """Of a product of matrices that is added to another; the sum is not counted."""
    return mm_flop(a_shape, b_shape)


@register_flop_formula(aten.bmm)
def bmm_flop(a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any) -> int:
    """Of products of as many matrices as there are examples."""
    return 2 * prod(a_shape) * b_shape[-1]


@register_flop_formula(aten.baddbmm)
def baddbmm_flop(
    self_shape: Any, a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any
) -> int:
    """Of such products that are added to another tensor."""
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(
    x_shape: Shape, w_shape: Shape, out_shape: Shape, transposed: bool = False
) -> int:
    """Of a convolution: each place of the smaller image meets each weight once."""
    places = (x_shape if transposed else out_shape)[2:]
    return 2 * x_shape[0] * prod(places) * prod(w_shape)


@register_flop_formula(aten.convolution)
def conv_flop(*shapes_and_options: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Of a convolution with the arguments of `aten.convolution`."""
    x_shape, w_shape, _, _, _, _, transposed, *_ = shapes_and_options
    return conv_flop_count(x_shape, w_shape, out_shape, transposed)


@register_flop_formula(aten.convolution_backward)
def conv_backward_flop(
    g_shape: Shape, x_shape: Shape, w_shape: Shape, *options: Any, out_shape: Any, **kwargs: Any
) -> int:
    """Of a convolution's backward with the arguments of `aten.convolution_backward`.

    The gradient of the image is a convolution the other way, that of the weight one whose kernel is
    an image; which of them are wanted is said by the last argument.
    """
    transposed, (image, weight, *_) = options[4], options[7]
    total = conv_flop_count(g_shape, w_shape, out_shape[0], not transposed) if image else 0
    if weight:
        larger, smaller = (g_shape, x_shape) if transposed else (x_shape, g_shape)
        total += _weight_gradient_flop(smaller, larger, w_shape[2:])
    return total


def sdpa_flop_count(query_shape: Shape, key_shape: Shape, value_shape: Shape) -> int:
    """Of attention: queries times keys, and weights times values."""
    scores = prod(query_shape[:-1]) * key_shape[-2]
    return 2 * scores * (query_shape[-1] + value_shape[-1])


def sdpa_backward_flop_count(
    grad_out_shape: Shape, query_shape: Shape, key_shape: Shape, value_shape: Shape
) -> int:
    """Of attention's backward as torch's fused kernels do it: five products, one a repetition."""
    scores = prod(query_shape[:-1]) * key_shape[-2]
    return 2 * scores * (3 * query_shape[-1] + 2 * value_shape[-1])


# Our own operators, and what they are in torch ----------------------------------------------------


def _matmul_flop(
    a_shape: Shape, b_shape: Shape, *args: Any, out_shape: Shape, **kwargs: Any
) -> int:
    return 2 * prod(out_shape) * a_shape[-1]


def _scores_flop(query: Shape, key: Shape, *args: Any, out_shape: Any, **kwargs: Any) -> int:
    scores: Shape = out_shape if isinstance(out_shape[0], int) else out_shape[0]
    return 2 * prod(scores) * query[-1]


def _contraction_flop(a_shape: Shape, b_shape: Shape, plan: Any, **kwargs: Any) -> int:
    if not plan.sums:
        return 0  # an outer product, which torch takes for a multiplication of elements
    sizes = dict(zip(plan.labels, a_shape, strict=True))
    sizes.update(zip(plan.others, b_shape, strict=True))
    return 2 * prod(sizes.values())


def _weight_gradient_flop(
    gradient: Shape, image: Shape, kernel: Shape, *_: Any, **kwargs: Any
) -> int:
    # As torch, which does not divide by the number of groups.
    return 2 * prod(gradient) * image[1] * prod(kernel)


# One operator in torch, several here, so that there is only its name to report.
_CONVOLUTION_BACKWARD = "aten.convolution_backward"
# Name of the operator -> formula, and the operator of torch under which it is reported.
_OURS: dict[str, tuple[Formula, Any]] = {
    "aten.matmul": (shape_wrapper(_matmul_flop), aten.bmm),
    "pullback._attention_weights": (shape_wrapper(_scores_flop), aten.bmm),
    "pullback._mix": (shape_wrapper(_matmul_flop), aten.bmm),
    "pullback._contract": (shape_wrapper(_contraction_flop), aten.bmm),
    "pullback.convolution_weight": (shape_wrapper(_weight_gradient_flop), _CONVOLUTION_BACKWARD),
}


class FlopCounterMode:
    """A context that counts; `display` prints a table at its end, of modules down to `depth`.

    Example:
        >>> import pullback as torch
        >>> from pullback.utils.flop_counter import FlopCounterMode
        >>> with FlopCounterMode(display=False) as counter:
        ...     _ = torch.ones(2, 3) @ torch.ones(3, 4)
        >>> counter.get_total_flops()
        48
    """

    def __init__(
        self,
        mods: Any = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ) -> None:
        if mods is not None:
            import warnings

            warnings.warn(
                "FlopCounterMode: mods is not needed any more; leave it out.",
                UserWarning,
                stacklevel=2,
            )
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.depth = depth
        self.display = display
        self.mod_tracker = ModuleTracker()
        own = custom_mapping or {}
        self.flop_registry = {
            **flop_registry,
            **{k: v if getattr(v, "_get_raw", False) else shape_wrapper(v) for k, v in own.items()},
        }
        self._mode: Any = None

    def get_total_flops(self) -> int:
        """All operations."""
        return sum(self.flop_counts[_GLOBAL].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Operations of each module, by operator; "Global" has them all."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as text: a line for each module, and for each of its operators."""
        from pullback.utils.flop_table import table

        return table(self.get_flop_counts(), self.depth if depth is None else depth)

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        self._mode = _Counting(self)
        self._mode.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._mode.__exit__(*error)
        self._mode = None
        self.mod_tracker.__exit__(*error)
        if self.display:
            print(self.get_table())

    def count(self, func: Any, out: Any, args: Any, kwargs: Any) -> None:
        """Note a call of an operator."""
        packet = func.overloadpacket
        formula = self.flop_registry.get(packet)
        reported = packet
        if formula is None:
            known = _OURS.get(str(packet))
            if known is None:
                return
            formula, reported = known
        elif packet == aten.convolution and self.mod_tracker.is_bw:
            reported = _CONVOLUTION_BACKWARD  # the gradient of the image is one here
        flops = formula(*args, **kwargs, out_val=out)
        for module in self.mod_tracker.parents:
            self.flop_counts[module][reported] += flops


class _Counting(TorchDispatchMode):
    """Sees the calls."""

    def __init__(self, counter: FlopCounterMode) -> None:
        self.counter = counter

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.counter.count(func, out, args, kwargs or {})
        return out


__dir__ = _only_public(globals())
