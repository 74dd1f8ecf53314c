"""Formulas, gradients and second derivatives of custom operators are torch's."""

import numpy as np
import pytest

from tests.differential.library.programs import agree, leaf, make, shown

# Autograd ----------------------------------------------------------------------------------------


def test_formula_sees_the_same_things():
    """C-35 to C-38."""

    def program(lib, name):
        seen = []
        op = make(
            lib, name,
            "(Tensor x, Tensor[] ys, int n=2, *, float k=1.0) -> (Tensor, Tensor[], int)",
            lambda x, ys, n=2, k=1.0: (x * n * k, [y * n for y in ys], n),
        )  # fmt: skip

        def setup(ctx, inputs, keyword_only_inputs, output):
            seen.append((inputs[2:], keyword_only_inputs, len(output), lib.is_grad_enabled()))
            ctx.n = inputs[2]
            ctx.save_for_backward(inputs[0])

        def backward(ctx, g, gs, nothing):
            seen.append((ctx.needs_input_grad, g, list(gs), nothing, len(ctx.saved_tensors)))
            return g * ctx.n, [one * ctx.n for one in gs], None

        op.register_autograd(backward, setup_context=setup)
        x, y = leaf(lib), leaf(lib)
        out, (first, second), n = op(x, [y, lib.ones(3)], 3)
        (out.sum() + first.sum()).backward()
        return seen, x.grad, y.grad, n, out, first, second

    agree(program)


GRADIENTS = {
    "right": lambda lib, g: (g, None),
    "bare": lambda lib, g: g,
    "too few": lambda lib, g: (),
    "surplus none": lambda lib, g: (g, None, None),
    "surplus tensor": lambda lib, g: (g, None, g),
    "for a number": lambda lib, g: (g, g),
    "list": lambda lib, g: [g, None],
    "number": lambda lib, g: (3.0, None),
    "none": lambda lib, g: (None, None),
    "larger": lambda lib, g: (lib.ones(3, 2), None),
    "wrong shape": lambda lib, g: (lib.ones(5), None),
    "other dtype": lambda lib, g: (g.double(), None),
}


@pytest.mark.parametrize("what", GRADIENTS)
@pytest.mark.parametrize("passed", [(), (2.0,), (3.0,)])
def test_gradients_are_judged_alike(what, passed):
    """C-39, C-41."""

    def program(lib, name):
        op = make(lib, name, "(Tensor x, float by=2.0) -> Tensor", lambda x, by=2.0: x * by)
        op.register_autograd(lambda ctx, g: GRADIENTS[what](lib, g))
        x = leaf(lib)
        op(x, *passed).sum().backward()
        return x.grad

    agree(program)


LISTS = {
    "right": lambda g: ([g, None], None),
    "tuple": lambda g: ((g, None), None),
    "none": lambda g: (None, None),
    "short": lambda g: ([g], None),
    "tensor": lambda g: (g, None),
}


@pytest.mark.parametrize("what", LISTS)
def test_gradients_of_lists_are_judged_alike(what):
    """C-40."""

    def program(lib, name):
        op = make(lib, name, "(Tensor[] xs, float[] k) -> Tensor", lambda xs, k: xs[0] * 1)
        op.register_autograd(lambda ctx, g: LISTS[what](g))
        x = leaf(lib)
        op([x, lib.ones(1)], [1.0]).sum().backward()
        return x.grad

    agree(program)


def test_missing_formula_fails_in_backward_alike():
    """C-42."""

    def program(lib, name):
        out = make(lib, name, "(Tensor x) -> Tensor", lambda x: x * 2)(leaf(lib))
        assert out.requires_grad
        out.sum().backward()

    assert agree(program) is RuntimeError


def test_second_derivatives_agree():
    """C-43."""

    def program(lib, name):
        op = make(lib, name, "(Tensor x) -> Tensor", lambda x: x**3)
        op.register_autograd(
            lambda ctx, g: 3 * g * ctx.saved_tensors[0] ** 2,
            setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
        )
        x = leaf(lib)
        (first,) = lib.autograd.grad(op(x).sum(), x, create_graph=True)
        (second,) = lib.autograd.grad(first.sum(), x)
        return first, second

    agree(program)


@pytest.mark.parametrize(
    "schema", ["(Tensor(a!) x) -> Tensor", "(Tensor x) -> ()", "(Tensor x, *, Tensor y) -> Tensor"]
)
def test_operators_without_formulas_are_the_same(schema):
    """C-26, C-44."""

    def program(lib, name):
        writes = ("x",) if "!" in schema else ()
        op = make(lib, name, schema, lambda x: None, writes)
        op.register_autograd(lambda ctx, g: g)

    assert agree(program) in (RuntimeError, NotImplementedError)


def test_formula_is_looked_up_late_alike():
    """C-34."""

    def program(lib, name):
        op = make(lib, name, "(Tensor x) -> Tensor", lambda x: x * 2)
        op.register_autograd(lambda ctx, g: g * 3)
        x = leaf(lib)
        out = op(x).sum()
        op.register_autograd(lambda ctx, g: g * 5)
        out.backward()
        return x.grad, out.grad_fn.next_functions[0][0].name().replace(name[-4:], "")[:20]

    agree(program)


@pytest.mark.parametrize("seed", range(25))
def test_operators_of_random_shape_agree(seed):
    """C-35 to C-40: any mix of tensors, lists, optional ones and numbers, in and out."""
    random = np.random.default_rng(seed)
    kinds = [str(kind) for kind in random.choice(["Tensor", "Tensor?", "Tensor[]", "int"], 3)]
    outs = [str(kind) for kind in random.choice(["Tensor", "Tensor[]", "int", "index"], 3)]
    tracked = random.integers(0, 2, 12).tolist()
    used = random.integers(0, 2, 6).tolist()
    materialize, fixed = bool(random.integers(2)), bool(random.integers(2))
    arguments = ", ".join(f"{kind} v{i}" for i, kind in enumerate(["Tensor", *kinds]))
    returned = ", ".join({"index": "Tensor"}.get(out, out) for out in ["Tensor", *outs])

    def program(lib, name):
        seen = []

        def kernel(*args):
            flat = [t for a in args for t in (a if isinstance(a, list) else [a])]
            total = sum(t for t in flat if isinstance(t, lib.Tensor))
            made = {
                "Tensor": lambda i: total * (i + 1), "int": lambda i: i,
                "Tensor[]": lambda i: [total * 10, total * 20],
                "index": lambda i: lib.ones(2, dtype=lib.int64),
            }  # fmt: skip
            return tuple(made[out](i) for i, out in enumerate(["Tensor", *outs]))

        def setup(ctx, inputs, output):
            ctx.set_materialize_grads(materialize)
            if fixed:
                ctx.mark_non_differentiable(output[0])
            ctx.lengths = [len(a) if isinstance(a, list) else None for a in inputs]
            ctx.tensors = [isinstance(a, lib.Tensor) for a in inputs]

        def backward(ctx, *grads):
            seen.append((ctx.needs_input_grad, [g if g is None else shown(g) for g in grads]))
            flat = [t for g in grads for t in (g if isinstance(g, list) else [g])]
            total = sum(g.double() for g in flat if g is not None) + lib.ones(2)
            return tuple(
                [total] * n if n is not None else (total if is_tensor else None)
                for n, is_tensor in zip(ctx.lengths, ctx.tensors, strict=True)
            )

        op = make(lib, name, f"({arguments}) -> ({returned})", kernel)
        op.register_autograd(backward, setup_context=setup)
        flags = iter(tracked)

        def tensor():
            return lib.ones(2, requires_grad=bool(next(flags)))

        given = {
            "Tensor": tensor, "Tensor?": lambda: tensor() if next(flags) else None,
            "Tensor[]": lambda: [tensor(), tensor()], "int": lambda: 3,
        }  # fmt: skip
        args = [tensor(), *(given[kind]() for kind in kinds)]
        results = [t for r in op(*args) for t in (r if isinstance(r, list) else [r])]
        needs = [getattr(r, "requires_grad", None) for r in results]
        roots = [r.sum() for r, n, u in zip(results, needs, used * 2, strict=False) if n and u]
        if roots:
            sum(roots).backward()
        flat = [t for a in args for t in (a if isinstance(a, list) else [a])]
        return needs, seen, [t.grad for t in flat if isinstance(t, lib.Tensor)]

    agree(program)
