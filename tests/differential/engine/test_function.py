"""The same custom Functions on torch and on pullback: the history that results get."""

import itertools

import pytest

torch = pytest.importorskip("torch")

from tests.sides import both, values


def described(side, out, x):
    if not isinstance(out, side.lib.Tensor):
        return repr(out)
    facts = {
        "values": values(out),
        "dtype": str(out.dtype),
        "requires_grad": out.requires_grad,
        "is_leaf": out.is_leaf,
        "node": type(out.grad_fn).__name__,
        "number": out.output_nr,
        "is input": out is x,
        "inference": out.is_inference(),
    }
    if out.is_inference():
        return facts
    facts |= {"version": out._version, "view": out._is_view()}
    if out._is_view():
        facts |= {"creation": side.creation(out), "of input": out._base is x}
    return facts


# name: (what forward does with x, what it tells ctx, how x is made)
CASES = {
    "fresh": (lambda x: x * 2, None, "leaf"),
    "input": (lambda x: x, None, "leaf"),
    "input that is computed": (lambda x: x, None, "computed"),
    "input that is a view": (lambda x: x, None, "view"),
    "input twice": (lambda x: (x, x), None, "leaf"),
    "integer input": (lambda x: x, None, "integer"),
    "view": (lambda x: x[1:], None, "leaf"),
    "view of intermediate": (lambda x: (x * 2)[1:], None, "leaf"),
    "view of computed": (lambda x: x[1:], None, "computed"),
    "view and fresh": (lambda x: (x[1:], x * 2), None, "leaf"),
    "two views": (lambda x: (x[1:], x[:1]), None, "leaf"),
    "input saved": (lambda x: x, lambda c, x, o: c.save_for_backward(x), "leaf"),
    "input saved for forward": (lambda x: x, lambda c, x, o: c.save_for_forward(x), "leaf"),
    "dirty": (lambda x: x.mul_(2), lambda c, x, o: c.mark_dirty(x), "computed"),
    "dirty leaf": (lambda x: x.mul_(2), lambda c, x, o: c.mark_dirty(x), "leaf"),
    "dirty and saved": (
        lambda x: x.mul_(2),
        lambda c, x, o: (c.mark_dirty(x), c.save_for_backward(x)),
        "computed",
    ),
    "dirty, not returned": (lambda x: x.mul_(2) * 1, lambda c, x, o: c.mark_dirty(x), "computed"),
    "dirty view": (lambda x: x.mul_(2), lambda c, x, o: c.mark_dirty(x), "view"),
    "dirty view and number": (lambda x: (x.mul_(2), 3), lambda c, x, o: c.mark_dirty(x), "view"),
    "dirty and fresh": (lambda x: (x.mul_(2), x * 3), lambda c, x, o: c.mark_dirty(x), "computed"),
    "dirty, no input": (lambda x: x * 2, lambda c, x, o: c.mark_dirty(o), "computed"),
    "dirty integer": (lambda x: x.mul_(2), lambda c, x, o: c.mark_dirty(x), "integer"),
    "changed, not marked": (lambda x: x.mul_(2), None, "computed"),
    "one without gradient": (
        lambda x: (x * 2, x * 3),
        lambda c, x, o: c.mark_non_differentiable(o[1]),
        "leaf",
    ),
    "input without gradient": (
        lambda x: x,
        lambda c, x, o: c.mark_non_differentiable(x),
        "leaf",
    ),
    "view without gradient": (
        lambda x: x[1:],
        lambda c, x, o: c.mark_non_differentiable(o),
        "leaf",
    ),
    "dirty without gradient": (
        lambda x: x.mul_(2),
        lambda c, x, o: (c.mark_dirty(x), c.mark_non_differentiable(x)),
        "computed",
    ),
    "pure view": (lambda x: x[1:], lambda c, x, o: setattr(c, "_is_pure_view", True), "leaf"),
    "pure view and fresh": (
        lambda x: (x[1:], x * 2),
        lambda c, x, o: setattr(c, "_is_pure_view", True),
        "leaf",
    ),
    "bool": (lambda x: x > 0, None, "leaf"),
    "fresh, bool, number, None": (lambda x: (x * 2, x > 0, 3, None), None, "leaf"),
    "tuple of one": (lambda x: (x * 2,), None, "leaf"),
    "empty tuple": (lambda x: (), None, "leaf"),
    "number": (lambda x: 3, None, "leaf"),
    "one object twice": (lambda x: (lambda y: (y, y))(x * 2), None, "leaf"),
}


def an_input(lib, kind, *, tracked):
    if kind == "integer":
        return None, lib.ones(3, dtype=lib.int64)
    leaf = lib.ones(4 if kind == "view" else 3, dtype=lib.float64, requires_grad=tracked)
    if kind == "leaf":
        return leaf, leaf
    made = leaf * 1
    return leaf, made[1:] if kind == "view" else made


def a_function(side, style, forward, tell, log):
    class Mine(side.Function):
        @staticmethod
        def backward(ctx, *grads):
            log.append([values(g) for g in grads])
            shown = [g for g in grads if g is not None and g.dtype.is_floating_point]
            return shown[0].sum() * ctx_ones(side) if shown else None

    if style == "combined":

        def combined(ctx, x):
            result = forward(x)
            if tell is not None:
                tell(ctx, x, result)
            return result

        Mine.forward = staticmethod(combined)
    else:
        Mine.forward = staticmethod(forward)
        Mine.setup_context = staticmethod(
            lambda ctx, inputs, output: tell(ctx, inputs[0], output) if tell is not None else None
        )
    return Mine


def ctx_ones(side):
    return side.lib.ones(3, dtype=side.lib.float64)


def matrix_program(side, case, style, mode, tracked):
    forward, tell, kind = CASES[case]
    log = []
    mine = a_function(side, style, forward, tell, log)
    leaf, x = an_input(side.lib, kind, tracked=tracked)
    modes = {
        "grad": side.lib.enable_grad,
        "no_grad": side.lib.no_grad,
        "inference": side.lib.inference_mode,
    }
    with modes[mode]():
        out = mine.apply(x)
    outputs = out if isinstance(out, tuple) else (out,)
    facts = [described(side, one, x) for one in outputs]
    for one in outputs:
        if isinstance(one, side.lib.Tensor) and one.requires_grad and one.grad_fn is not None:
            leaf.grad = None
            one.sum().backward(retain_graph=True)
            facts.append(values(leaf.grad))
    return facts, log, None if x.is_inference() else x._version


MATRIX = list(
    itertools.product(CASES, ("combined", "split"), ("grad", "no_grad", "inference"), (True, False))
)


@pytest.mark.parametrize(("case", "style", "mode", "tracked"), MATRIX)
def test_results_have_the_history_that_torch_gives_them(case, style, mode, tracked):
    """F-19 to F-32, F-43 to F-57."""
    theirs, ours = both(matrix_program, case, style, mode, tracked)
    assert ours == theirs


def mutated_afterwards(side, case, target, style):
    forward, tell, kind = CASES[case]
    mine = a_function(side, style, forward, tell, [])
    leaf, x = an_input(side.lib, kind, tracked=True)
    base = x._base if x._is_view() else x
    out = mine.apply(x)
    first = out[0] if isinstance(out, tuple) else out
    if target == "result":
        first.mul_(3)
    else:
        with side.lib.no_grad():
            base.mul_(3)
    (first * 2).sum().backward()
    return values(leaf.grad), type(first.grad_fn).__name__


@pytest.mark.parametrize("style", ["combined", "split"])
@pytest.mark.parametrize("target", ["result", "base"])
@pytest.mark.parametrize(
    "case",
    [c for c in CASES if CASES[c][2] != "integer" and c not in ("number", "empty tuple", "bool")],
)
def test_writing_to_results_or_their_base_is_allowed_where_torch_allows_it(case, target, style):
    """F-30, F-31, F-32."""
    theirs, ours = both(mutated_afterwards, case, target, style)
    assert ours == theirs
