"""Forward mode and function transforms of the same custom Functions on torch and on pullback."""

from importlib import import_module

import pytest

torch = pytest.importorskip("torch")

from tests.sides import both, values

JVPS = {
    "fresh, right": (lambda x: x * 2, lambda t: t * 2),
    "fresh, tangent itself": (lambda x: x * 2, lambda t: t),
    "fresh, None": (lambda x: x * 2, lambda t: None),
    "fresh, two": (lambda x: x * 2, lambda t: (t, t)),
    "fresh, extra None": (lambda x: x * 2, lambda t: (t, None)),
    "fresh, number": (lambda x: x * 2, lambda t: 2.0),
    "fresh, other shape": (lambda x: x * 2, lambda t: t[:1]),
    "fresh, other dtype": (lambda x: x * 2, lambda t: t.float()),
    "bool, None": (lambda x: (x * 2, x > 0), lambda t: (t, None)),
    "bool, tensor": (lambda x: (x * 2, x > 0), lambda t: (t, t)),
    "number, None": (lambda x: (x * 2, 3), lambda t: (t, None)),
    "view, view": (lambda x: x[1:], lambda t: t[1:]),
    "view, copy": (lambda x: x[1:], lambda t: t[1:] * 1),
    "view, other view": (lambda x: x[1:], lambda t: (t * 1)[1:]),
    "input, itself": (lambda x: x, lambda t: t),
    "input, view": (lambda x: x, lambda t: t.view_as(t)),
    "input, copy": (lambda x: x, lambda t: t * 1),
    "dirty, in place": (lambda x: x.mul_(2), lambda t: t.mul_(2)),
    "dirty, not changed": (lambda x: x.mul_(2), lambda t: t),
    "dirty, another": (lambda x: x.mul_(2), lambda t: t * 2),
}


def jvp_program(side, case, tracked):
    forward, push = JVPS[case]
    fw = import_module(f"{side.lib.__name__}.autograd.forward_ad")

    class Mine(side.Function):
        @staticmethod
        def forward(ctx, x):
            if case.startswith("dirty"):
                ctx.mark_dirty(x)
            return forward(x)

        @staticmethod
        def jvp(ctx, t):
            return push(t)

    lib = side.lib
    x = lib.ones(3, dtype=lib.float64, requires_grad=tracked) * 1
    t = lib.tensor([1.0, 2.0, 3.0], dtype=lib.float64)
    with fw.dual_level():
        out = Mine.apply(fw.make_dual(x, t))
        outs = out if isinstance(out, tuple) else (out,)
        found = [fw.unpack_dual(o).tangent for o in outs if isinstance(o, lib.Tensor)]
        return [values(f) for f in found], [f is t for f in found], values(t)


@pytest.mark.parametrize("tracked", [True, False])
@pytest.mark.parametrize("case", JVPS)
def test_what_jvp_returns_is_judged_as_torch_does(case, tracked):
    """F-78 to F-86."""
    theirs, ours = both(jvp_program, case, tracked)
    assert ours[0] == theirs[0]


def power(side, rule):
    """x ** 3 * w, with all methods and one vmap rule or the other."""

    class Power(side.Function):
        generate_vmap_rule = rule == "generated"

        @staticmethod
        def forward(x, w):
            return x * x * x * w

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return 3 * g * x * x * w, g * x * x * x

        @staticmethod
        def jvp(ctx, dx, dw):
            x, w = ctx.saved_tensors
            total = 3 * x * x * w * dx
            return total if dw is None else total + x * x * x * dw

    if rule == "own":

        def batched(info, in_dims, x, w):
            dims = [dim for dim in in_dims if dim is not None]
            assert set(dims) <= {0}
            x = x if in_dims[0] == 0 else x.unsqueeze(0)
            w = w if in_dims[1] == 0 else w.unsqueeze(0)
            return Power.apply(x, w), 0

        Power.vmap = staticmethod(batched)
    return Power


TRANSFORMS = {
    "grad": lambda func, f, x, w: func.grad(lambda x: f(x, w).sum())(x[0]),
    "grad of w": lambda func, f, x, w: func.grad(lambda w: f(x[0], w).sum())(w),
    "grad of grad": lambda func, f, x, w: func.grad(
        lambda x: func.grad(lambda x: f(x, w).sum())(x).sum()
    )(x[0]),
    "vjp": lambda func, f, x, w: func.vjp(f, x[0], w)[1](x[0])[0],
    "jvp": lambda func, f, x, w: func.jvp(f, (x[0], w), (x[1], w))[1],
    "jvp of grad": lambda func, f, x, w: func.jvp(
        func.grad(lambda x: f(x, w).sum()), (x[0],), (x[1],)
    )[1],
    "grad of jvp": lambda func, f, x, w: func.grad(
        lambda y: func.jvp(f, (y, w), (x[1], w))[1].sum()
    )(x[0]),
    "vmap": lambda func, f, x, w: func.vmap(f, (0, None))(x, w),
    "vmap of both": lambda func, f, x, w: func.vmap(f)(x, x),
    "vmap of grad": lambda func, f, x, w: func.vmap(func.grad(lambda x: f(x, w).sum()))(x),
    "grad of vmap": lambda func, f, x, w: func.grad(lambda w: func.vmap(f, (0, None))(x, w).sum())(
        w
    ),
    "vmap of jvp": lambda func, f, x, w: func.vmap(lambda x, t: func.jvp(f, (x, w), (t, w))[1])(
        x, x
    ),
    "vmap of vmap": lambda func, f, x, w: func.vmap(
        lambda row: func.vmap(lambda one: f(one.reshape(1), w[:1]))(row)
    )(x),
    "jacrev": lambda func, f, x, w: func.jacrev(lambda x: f(x, w))(x[0]),
    "jacfwd": lambda func, f, x, w: func.jacfwd(lambda x: f(x, w))(x[0]),
    "hessian": lambda func, f, x, w: func.hessian(lambda x: f(x, w).sum())(x[0]),
    "outer no_grad": None,
}


def transform_program(side, name, rule):
    lib = side.lib
    x = lib.tensor([[0.5, 1.5], [1.0, 2.0], [0.25, 3.0]], dtype=lib.float64)
    w = lib.tensor([2.0, -1.0], dtype=lib.float64)
    f = power(side, rule).apply
    if name == "outer no_grad":
        with lib.no_grad():
            return values(TRANSFORMS["grad"](lib.func, f, x, w))
    return values(TRANSFORMS[name](lib.func, f, x, w))


@pytest.mark.parametrize("rule", ["generated", "own", "none"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_functions_give_torchs_derivatives(name, rule):
    """F-96 to F-105."""
    theirs, ours = both(transform_program, name, rule)
    if theirs[0] is not RuntimeError:
        assert ours[0] == theirs[0]
    elif name in ("vmap", "vmap of both", "vmap of vmap"):
        assert ours[0] is RuntimeError
