"""Function transforms leave no reference cycles: memory is flat while the collector is off."""

import gc
import itertools

import pytest

import pullback as torch
from pullback.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)

X = torch.linspace(0.1, 1.0, 3, dtype=torch.float64)

# Each takes a function of a vector to another function of a vector.
TRANSFORMS = {
    "grad": lambda f: grad(lambda x: f(x).sum()),
    "grad_and_value": lambda f: lambda x: grad_and_value(lambda y: f(y).sum())(x)[0],
    "vjp": lambda f: lambda x: vjp(f, x)[1](f(x))[0],
    "jvp": lambda f: lambda x: jvp(f, (x,), (X,))[1],
    "jacrev": lambda f: lambda x: jacrev(f)(x).sum(0),
    "jacfwd": lambda f: lambda x: jacfwd(f)(x).sum(0),
    "hessian": lambda f: lambda x: hessian(lambda y: f(y).sum())(x).sum(0),
    "linearize": lambda f: lambda x: linearize(f, x)[1](X),
    "vmap": lambda f: lambda x: vmap(f)(torch.stack([x, x])).sum(0),
    "functionalize": functionalize,
}
PAIRS = [*((name,) for name in TRANSFORMS), *itertools.product(TRANSFORMS, repeat=2)]


def garbage(run):
    """How many objects only the collector could free after a run."""
    run()
    run()
    gc.collect()
    gc.disable()
    try:
        run()
        run()
        return gc.collect()
    finally:
        gc.enable()


@pytest.mark.parametrize("names", PAIRS, ids=" of ".join)
def test_transforms_leave_no_cycles(names):
    function = lambda x: x * x.sin()  # noqa: E731 (one line, read where it is used)
    for name in reversed(names):
        function = TRANSFORMS[name](function)
    assert garbage(lambda: function(X)) == 0


def test_functional_modules_leave_no_cycles():
    layer = torch.nn.Linear(3, 2).double()
    params = dict(layer.named_parameters())
    assert garbage(lambda: functional_call(layer, params, (X,))) == 0
    assert garbage(lambda: grad(lambda p: functional_call(layer, p, (X,)).sum())(params)) == 0
    assert garbage(lambda: stack_module_state([layer, layer])) == 0


def test_forty_calls_take_no_more_memory_than_one():
    import tracemalloc

    big = torch.ones(100_000)

    def peak(count):
        tracemalloc.start()
        for _ in range(count):
            hessian_product = jvp(grad(lambda x: (x * x * x).sum()), (big,), (big,))[1]
            del hessian_product
        _, top = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return top

    peak(1)
    gc.disable()
    try:
        assert peak(40) < 1.3 * peak(1)
    finally:
        gc.enable()
