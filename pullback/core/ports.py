"""What a layer asks of those above it: the one place where calls go upwards, each filled once.

A layer never imports what lies above. Where it must call there all the same (a view's history is
made anew by operators, a batched gradient needs vmap), the call goes through a port: a typed
attribute here, which the layer above fills when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pullback.core.home import home_of

if TYPE_CHECKING:
    from pullback.core.nesting import Derivative
    from pullback.core.node import Edge
    from pullback.core.tensor import Tensor
    from pullback.core.view import View

__all__ = ["Ports", "ports"]

# Ports that most programs never use, and the modules that fill them when they are loaded.
_FILLED_LATER = {
    "accumulate_by_call": "pullback.engine.accumulate",
    "allocated_there": "pullback.operators.cuda.moving",
    "backward_source": "pullback.compiled.source",
    "answered_below": "pullback.library.builtin.overloads",
    "class_answers": "pullback.library.builtin.makers",
    "cudnn_switches": "pullback.backends.cudnn",
    "current_cuda": "pullback.operators.cuda.found",
    "data_inside": "pullback.transforms.own_level",
    "detached_below": "pullback.library.builtin.overloads",
    "filled_there": "pullback.operators.cuda.drawing",
    "find_cuda": "pullback.operators.cuda.found",
    "function_source": "pullback.compiled.source",
    "held_for": "pullback.operators.cuda.backward_streams",
    "watch_streams": "pullback.cuda.streams",
    "usual_overload": "pullback.library.builtin.overloads",
    "hollow": "pullback.core.memory.hollow",
    "memory_holders": "pullback.autograd.graph.memory",
    "native_kernel": "pullback.compiled.eager.kernel",
    "pinned": "pullback.operators.cuda.pinned",
    "dual": "pullback.transforms.dual",
    "pushed": "pullback.transforms.dual",
    "is_pinned": "pullback.operators.cuda.pinned",
    "placed": "pullback.operators.cuda.moving",
    "overload_of": "pullback.library.builtin.overloads",
    "seeded_there": "pullback.operators.cuda.drawing",
    "shown_inside": "pullback.transforms.printing",
    "stream_there": "pullback.operators.cuda.drawing",
    "taken_there": "pullback.operators.cuda.moving",
    "transposed": "pullback.transforms.reverse",
}


class Ports:
    """The calls that go upwards; the comment names who fills each."""

    # core -> operators/shape: a view's node from its base's present history, a function that takes
    # the base to a view of the same geometry, and another tensor viewed as a view sees its base.
    regenerate: Callable[[Tensor, View], Edge | None]
    restride: Callable[[Tensor, Tensor], Callable[[Tensor], Tensor]]
    view_of: Callable[[Tensor, Any], Any]
    # core -> operators/cuda: whether CuPy and a device are there (looked for once); which device is
    # the current one; an array brought to a device, or to the host.
    find_cuda: Callable[[], bool]
    current_cuda: Callable[[], int]
    # operators/cuda -> backends: whether cuDNN is on, must be deterministic, and in full precision.
    cudnn_switches: Callable[..., tuple[bool, bool, bool]]
    placed: Callable[..., Any]
    allocated_there: Callable[..., Any]
    # operators -> operators/cuda: a host array in pinned memory, and whether it is.
    pinned: Callable[[Any], Any]
    is_pinned: Callable[[Any], bool]
    # operators/cuda -> autograd: what holds memory on a device, most first: bytes and words.
    memory_holders: Callable[[int], list[tuple[int, str]]]
    # operators/random -> operators/cuda: a device array filled with random numbers, all devices
    # seeded, and the numbers of a generator on a device.
    filled_there: Callable[..., None]
    seeded_there: Callable[[int], None]
    stream_there: Callable[..., Any]
    # operators/cuda -> cuda: nodes have turns on their own streams and devices from now on.
    watch_streams: Callable[[], None]
    # operators/tensor -> operators/cuda: an array kept until a stream is done with it.
    held_for: Callable[[Any, Any], None]
    # operators/create -> operators/cuda: an array of ours on another library's device memory.
    taken_there: Callable[..., Any]
    # core -> core/tensor: dtype and device of a gradient, from what its node noted.
    describe_metadata: Callable[[Any, Any], tuple[Any, Any]]
    # core -> transforms: detach() inside a function transform.
    detach_inside: Callable[[Tensor, Derivative], None]
    # core -> transforms: .data inside a function transform, and the same without any history.
    data_inside: Callable[[Tensor, Tensor], Tensor]
    # operators -> core/memory/hollow: the array of a tensor without data, from its geometry.
    hollow: Callable[..., Any]
    # core -> library: detach() of a tensor whose class answers operators below autograd.
    detached_below: Callable[[Tensor], Tensor]
    usual_overload: Callable[[Any], tuple[Any, Any, str] | None]
    # operators -> library: other functions without a declaration, by torch's name of the operator;
    # and the first tensor of such a class is made, for functions that make tensors.
    answered_below: Callable[..., Any]
    class_answers: Callable[[type], None]
    # core -> autograd: the graph of a node as HTML, for notebooks.
    drawn: Callable[[Any], str]
    # autograd, func -> compiled: a backward pass, or a function, as source.
    backward_source: Callable[..., Any]
    function_source: Callable[..., Any]
    # core -> engine: an AccumulateGrad node called as a function.
    accumulate_by_call: Callable[..., tuple[()]]
    # operators/declare -> writing: the code of an operator's function, or of its in-place form.
    build: Callable[..., Any]
    # operators/running/answered -> writing: what gives a handler's result its node; None: step by
    # step.
    recorder_of: Callable[[Any], Callable[..., bool] | None]
    # operators/running/interpret -> autocasting: an operator's call inside a region.
    autocast: Callable[..., Any]
    # operators/running/interpret -> transforms: a call with its tangent, or NotImplemented.
    pushed: Callable[..., Any]
    # operators -> transforms: tangents of an operator without `jvp=`, by its reverse rules.
    transposed: Callable[[Any, dict[str, Any], list[Any], dict[str, Any]], list[Any]]
    # operators -> transforms: how a tensor prints inside function transforms.
    shown_inside: Callable[[Tensor], str | None]
    # operators/writing -> transforms: the forms of an operator for calls inside vmap and inside a
    # forward derivative, from the globals of its function and its fast path.
    mapped: Callable[[Any, dict[str, Any], Any], Any]
    dual: Callable[[Any, dict[str, Any], Any], Any]
    # operators/arrays -> compiled: a kernel in machine code for arrays like these, by the name of
    # its formula; None where there is none to be had.
    native_kernel: Callable[..., Any]
    # operators/arrays -> writing: written lines ask for large arrays from now on.
    split_large: Callable[[], None]
    # operators -> library: the overload that stands for an operator's call, with its arguments.
    overload_of: Callable[[Any, str, dict[str, Any]], Any]
    # operators/running -> dispatch/asking: an argument that overrides calls, met by an operator.
    met: Callable[..., tuple[bool, Any]]
    met_by: Callable[[str, tuple[Any, ...]], tuple[bool, Any]]
    # operators/dispatch/intercept -> asking: function and arguments as torch would report them.
    spelled: Callable[[Any, tuple[Any, ...], dict[str, Any]], tuple[Any, Any, Any]]
    # operators/dispatch/intercept -> asking: whether a function is Python in torch.
    is_python: Callable[[Any], bool]
    # engine -> transforms: a function called once with the examples of a batch, results stacked.
    over_batch: Callable[[Callable[..., list[Any]], Any, int], list[Any]]

    def fill(self, **calls: Callable[..., Any]) -> None:
        """Fill ports; a name that is no port, or is filled already, is a mistake of ours.

        By another function, that is: a module whose import was interrupted fills again what it had
        filled.
        """
        for name, call in calls.items():
            if name not in Ports.__annotations__:
                raise TypeError(f"There is no port {name!r}.")
            before = vars(self).get(name)
            if before is not None and _place(before) != _place(call):
                raise TypeError(f"The port {name!r} is filled already, by {before!r}.")
            setattr(self, name, call)

    def __getattr__(self, name: str) -> Any:
        """A port that is not filled: what fills it is loaded now, if it is one of the few."""
        if name in _FILLED_LATER:
            import_module(_FILLED_LATER[name])
            return vars(self)[name]
        raise AttributeError(f"The port {name!r} is not filled: the layer above is not imported.")


def _place(call: Any) -> tuple[Any, Any]:
    """Where a function is written."""
    return home_of(call), getattr(call, "__qualname__", call)


ports = Ports()
