"""Programs that use one part of autograd each, and give numbers: what faults and threads disturb.

Each makes all that it uses, so that a second run owes nothing to the first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pullback as torch
from pullback.utils.checkpoint import checkpoint

Numbers = list[Any]


def _model() -> Any:
    """A network with given weights: drawn ones would come from the generator of all threads."""
    layers = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    with torch.no_grad():
        for weight in layers.parameters():
            weight.copy_(torch.linspace(-1, 1, weight.numel()).reshape(weight.shape))
    return layers


def _points() -> Any:
    return torch.linspace(0.1, 1.2, 6, dtype=torch.float64)


def training_step() -> Numbers:
    """Two steps of a small network with momentum."""
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    inputs = torch.arange(6.0).reshape(2, 3)
    for _ in range(2):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), torch.ones(2, 1)).backward()
        optimizer.step()
    return [one.tolist() for one in model.parameters()]


def double_backward() -> Numbers:
    """A gradient of a gradient's norm."""
    x = _points().requires_grad_()
    (g,) = torch.autograd.grad((x.sin() * x).sum(), x, create_graph=True)
    g.square().sum().backward()
    return [g.tolist(), x.grad.tolist()]


def checkpointed() -> Numbers:
    """A segment that backward computes again."""
    x = _points().requires_grad_()
    y = checkpoint(lambda a: (a.exp() * a).cos(), x, use_reentrant=False)
    y.sum().backward()
    return [y.tolist(), x.grad.tolist()]


def per_sample_gradients() -> Numbers:
    """Vmap of grad."""
    found = torch.func.vmap(torch.func.grad(lambda x: x.sin().prod()))(_points().reshape(2, 3))
    return [found.tolist()]


@cache
def _cube() -> Any:
    """A class knows itself, so that each would wait for the collector: one is made."""

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grads[0] * 3 * x * x

    return Cube


def custom_function() -> Numbers:
    """A Function with saved values and a hook on its node."""
    x = _points().requires_grad_()
    y = _cube().apply(x)
    y.grad_fn.register_hook(lambda inputs, outputs: tuple(g * 2 for g in inputs))
    y.sum().backward()
    return [y.tolist(), x.grad.tolist()]


def profiled() -> Numbers:
    """A pass under the profiler."""
    x = _points().requires_grad_()
    with torch.autograd.profiler.profile() as profile:
        (x.exp() * x).sum().backward()
    return [x.grad.tolist(), sorted({event.name for event in profile.function_events})]


@cache
def _counting() -> Any:
    from pullback.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            self.seen += 1
            return func(*args, **(kwargs or {}))

    return Counting


def dispatched() -> Numbers:
    """Calls and a backward pass that a dispatch mode counts."""
    x = _points().requires_grad_()
    with _counting()() as mode:
        (x.sin() * x).sum().backward()
    return [x.grad.tolist(), mode.seen]


def hooked() -> Numbers:
    """Hooks on a tensor and a leaf, and a kept gradient."""
    x = _points().requires_grad_()
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 3)
    kept = []
    x.register_post_accumulate_grad_hook(lambda leaf: kept.append(leaf.grad.tolist()))
    y.square().sum().backward()
    return [x.grad.tolist(), y.grad.tolist(), kept]


def packed() -> Numbers:
    """Saved values that hooks put away and bring back."""
    x = _points().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t * 1):
        y = (x.exp() * x.sin()).sum()
    y.backward()
    return [x.grad.tolist()]


def second_derivatives() -> Numbers:
    """A Hessian, forward over reverse, and a product with it."""
    from pullback.func import grad, hessian, jvp

    def function(x: Any) -> Any:
        return (x.sin() * x.flip(0)).sum()

    x = _points()
    return [hessian(function)(x).tolist(), jvp(grad(function), (x,), (x,))[1].tolist()]


def written() -> Numbers:
    """Writes through views, with history."""
    x = _points().requires_grad_()
    base = x * 1
    base[1:3].mul_(2)
    base.view(2, 3)[0].add_(x[:3])
    base.sum().backward()
    return [base.tolist(), x.grad.tolist()]


def autocast_step() -> Numbers:
    """A product in bfloat16."""
    weight = torch.ones(3, 2, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = torch.arange(6.0).reshape(2, 3) @ weight
    y.float().sum().backward()
    return [str(y.dtype), y.tolist(), weight.grad.tolist()]


def custom_operator() -> Numbers:
    """An operator of the user's, with a formula."""
    x = _points().requires_grad_()
    _scaled()(x, 3.0).sum().backward()
    return [x.grad.tolist()]


@cache
def _scaled() -> Callable[..., Any]:
    found = torch.library.custom_op("stress::scaled", mutates_args=())(_scaled_kernel)
    found.register_autograd(lambda ctx, g: (g * ctx.factor, None), setup_context=_keep_factor)
    return found


def _scaled_kernel(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * factor


def _keep_factor(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.factor = inputs[1]


def compiled_step() -> Numbers:
    """A loss and its gradient as one program, by the back end that needs nothing."""
    run = torch.compile(lambda x: (x.sin() * x).sum(), backend="python")
    x = _points().requires_grad_()
    run(x).backward()
    return [x.grad.tolist()]


WORKS: dict[str, Callable[[], Numbers]] = {
    one.__name__: one
    for one in (
        *(training_step, double_backward, checkpointed, per_sample_gradients, custom_function),
        *(profiled, dispatched, hooked, packed, second_derivatives, written, autocast_step),
        *(custom_operator, compiled_step),
    )
}
