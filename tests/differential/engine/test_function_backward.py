"""The same custom Functions on torch and on pullback: arguments, backward, hooks, the node."""

import pytest

torch = pytest.importorskip("torch")

from tests.sides import both, values

RETURNS = {
    "right": lambda g: (g, None),
    "bare": lambda g: g,
    "extra None": lambda g: (g, None, None, None),
    "extra gradient": lambda g: (g, None, g),
    "too few": lambda g: (g,),
    "none at all": lambda g: (),
    "for a number": lambda g: (g, g),
    "list": lambda g: [g, None],
    "number": lambda g: (2.0, None),
    "array": lambda g: (g.numpy(), None),
    "None": lambda g: (None, None),
    "broadcast": lambda g: (g.expand(4, 3), None),
    "broadcast of 1": lambda g: (g.reshape(1, 3), None),
    "too small": lambda g: (g.sum(), None),
    "wrong shape": lambda g: (g.reshape(3, 1), None),
    "float32": lambda g: (g.float(), None),
    "integer": lambda g: (g.long(), None),
    "complex": lambda g: (g + 1j, None),
    "the argument twice": lambda g: (g.view(3), None),
}


def returned_program(side, what, create_graph, kind):
    class Mine(side.Function):
        @staticmethod
        def forward(ctx, x, k):
            return x * k

        @staticmethod
        def backward(ctx, g):
            return RETURNS[what](g)

    lib = side.lib
    x = lib.ones(3, dtype=lib.float64, requires_grad=True)
    w = lib.ones(3, dtype=lib.float64, requires_grad=True)
    out = (Mine.apply(x * 1, 2) * w * w).sum()
    if kind == "backward":
        out.backward(create_graph=create_graph)
        return values(x.grad), values(w.grad)
    found = side.grad(out, (x, w), create_graph=create_graph, allow_unused=True)
    return [values(g) for g in found], [g is not None and g.requires_grad for g in found]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["backward", "grad"])
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("what", RETURNS)
def test_what_backward_returns_is_judged_as_torch_does(what, create_graph, kind):
    """F-62 to F-66."""
    theirs, ours = both(returned_program, what, create_graph, kind)
    assert ours[0] == theirs[0]


def second_order(side, saves):
    class Power(side.Function):
        @staticmethod
        def forward(ctx, x, w):
            y = x * w
            out = y * y
            kept = {"inputs": (x, w), "output": (x, w, out), "intermediate": (x, w, y)}[saves]
            ctx.save_for_backward(*kept)
            return out

        @staticmethod
        def backward(ctx, g):
            x, w, *rest = ctx.saved_tensors
            y = rest[0] if saves == "intermediate" else x * w
            extra = rest[0] * 0.5 if saves == "output" else 0
            return g * (2 * y * w + extra), g * 2 * y * x

    lib = side.lib
    x = lib.tensor([0.5, 1.5], dtype=lib.float64, requires_grad=True)
    w = lib.tensor([2.0, 3.0], dtype=lib.float64, requires_grad=True)
    first = side.grad(Power.apply(x, w).sum(), (x, w), create_graph=True)
    second = side.grad(sum(g.sum() for g in first), (x, w), create_graph=True)
    third = side.grad(sum(g.sum() for g in second), (x, w), allow_unused=True)
    return [[values(g) for g in order] for order in (first, second, third)]


@pytest.mark.parametrize("saves", ["inputs", "output", "intermediate"])
def test_higher_derivatives_are_torchs(saves):
    """F-73, F-74."""
    theirs, ours = both(second_order, saves)
    assert ours == theirs


def hooked_program(side, create_graph):
    lib, log = side.lib, []

    class Two(side.Function):
        @staticmethod
        def forward(ctx, x, k, w):
            return x * k, x * w

        @staticmethod
        def backward(ctx, g, h):
            log.append(("backward", values(g), values(h)))
            return g * 2, None, h.expand(2, 3)

    x = lib.ones(3, dtype=lib.float64, requires_grad=True)
    w = lib.ones(3, dtype=lib.float64, requires_grad=True)
    a, b = Two.apply(x * 1, 2.0, w * 1)
    a.register_hook(lambda g: log.append(("tensor", values(g))))
    b.retain_grad()
    node = a.grad_fn
    node.register_prehook(lambda gs: log.append(("pre", [values(g) for g in gs])))
    node.register_prehook(lambda gs: tuple(None if g is None else g * 10 for g in gs))
    node.register_hook(
        lambda gi, go: log.append(("post", [values(g) for g in gi], [values(g) for g in go]))
    )
    node.register_hook(lambda gi, go: tuple(g * 3 for g in gi))
    b.sum().backward(create_graph=create_graph)
    return log, values(x.grad), values(w.grad), values(b.grad)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("create_graph", [False, True])
def test_hooks_see_what_they_see_in_torch(create_graph):
    """F-90, F-91, F-94."""
    theirs, ours = both(hooked_program, create_graph)
    assert ours[0] == theirs[0]


def undefined_program(side, materialize, create_graph):
    lib, log = side.lib, []

    class Stops(side.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return None

    class Sees(side.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(materialize)
            return x * 2, x.long(), 5

        @staticmethod
        def backward(ctx, g, h, k):
            log.append((values(g), values(h), k))
            return g

    x = lib.ones(3, dtype=lib.float64, requires_grad=True)
    y, _, _ = Sees.apply(x)
    y.register_hook(lambda g: log.append(values(g)))
    Stops.apply(y * 3).sum().backward(create_graph=create_graph)
    return log, values(x.grad)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("materialize", [True, False])
def test_backward_runs_without_any_gradient_as_in_torch(materialize, create_graph):
    """F-56, F-58, F-60, F-64."""
    theirs, ours = both(undefined_program, materialize, create_graph)
    assert ours[0] == theirs[0]


def attribute_program(side, name, value):
    class Mine(side.Function):
        @staticmethod
        def forward(ctx, x):
            setattr(ctx, name, value)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    lib = side.lib
    x = lib.ones(3, dtype=lib.float64, requires_grad=True)
    out = Mine.apply(x)
    out.sum().backward()
    kept = getattr(out.grad_fn, name, "unreadable")
    return values(x.grad), kept if isinstance(kept, (int, str, tuple)) else type(kept).__name__


NAMES = [
    "name",
    "shape",
    "dtype",
    "sizes",
    "edges",
    "seq",
    "cold",
    "code",
    "origin",
    "op",
    "out",
    "output",
    "inner",
    "special",
    "prefix",
    "run",
    "release",
    "zeros",
    "node",
    "apply_",
    "to_save",
    "dirty_tensors",
    "non_differentiable",
    "materialize_grads",
    "metadata",
    "_is_pure_view",
    "needs_input_grad",
    "next_functions",
    "saved_tensors",
    "requires_grad",
    "self",
    "cls",
    "x",
]


@pytest.mark.parametrize("value", [3, None, (3,), True])
@pytest.mark.parametrize("name", NAMES)
def test_attributes_of_ctx_are_free_where_they_are_in_torch(name, value):
    """F-17, F-37, F-41, F-58, F-92."""
    theirs, ours = both(attribute_program, name, value)
    assert ours == theirs


SIGNATURES = {
    "combined": lambda ctx, x, a=1, b=2: x * a * b,
    "combined keyword-only": lambda ctx, x, *, b=2: x * b,
    "combined many": lambda ctx, *args: args[0] * 2,
    "split": lambda x, a=1, b=2: x * a * b,
    "split keyword-only": lambda x, *, b=2: x * b,
    "split many": lambda *args: args[0] * 2,
}
CALLS = {
    "x": lambda f, x: f(x),
    "x, a": lambda f, x: f(x, 3),
    "x, a=": lambda f, x: f(x, a=3),
    "x, b=": lambda f, x: f(x, b=3),
    "x, b=, a=": lambda f, x: f(x, b=3, a=4),
    "x=": lambda f, x: f(x=x),
    "unknown": lambda f, x: f(x, q=3),
    "twice": lambda f, x: f(x, x=x),
    "nothing": lambda f, x: f(),
    "too many": lambda f, x: f(x, 1, 2, 3),
}


def bound_program(side, signature, call):
    seen = []

    class Mine(side.Function):
        forward = staticmethod(SIGNATURES[signature])

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.needs_input_grad)
            return (g, *[None] * (len(ctx.needs_input_grad) - 1))

    if signature.startswith("split"):
        Mine.setup_context = staticmethod(
            lambda ctx, inputs, output: seen.append([type(i).__name__ for i in inputs])
        )
    x = side.lib.ones(3, dtype=side.lib.float64, requires_grad=True)
    out = CALLS[call](Mine.apply, x)
    out.sum().backward()
    return values(out), values(x.grad), seen


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("signature", SIGNATURES)
def test_arguments_are_bound_as_in_torch(signature, call):
    """F-12, F-13."""
    theirs, ours = both(bound_program, signature, call)
    assert ours == theirs


def once_program(side, wants):
    class Mine(side.Function):
        @staticmethod
        def forward(ctx, x, w):
            return x * w, x + w

        @staticmethod
        @side.once
        def backward(ctx, g, h):
            return g * 2 + h, None

    lib = side.lib
    x = lib.ones(2, dtype=lib.float64, requires_grad=True)
    w = lib.ones(2, dtype=lib.float64, requires_grad=True)
    a, b = Mine.apply(x, w)
    (g,) = side.grad((a * a).sum() + b.sum(), (x,), create_graph=True)
    facts = [values(g), type(g.grad_fn).__name__, g.grad_fn.name(), g.requires_grad, g.output_nr]
    facts.append(g.grad_fn._sequence_nr())
    if wants == "second":
        g.sum().backward()
    elif wants == "unused":
        side.grad(g.sum(), w)
    return facts


@pytest.mark.parametrize("wants", ["first", "second", "unused"])
def test_once_differentiable_guards_as_in_torch(wants):
    """F-75 to F-77."""
    theirs, ours = both(once_program, wants)
    assert ours == theirs


def node_program(side):
    class Mine(side.Function):
        @staticmethod
        def forward(ctx, x, k, w):
            ctx.save_for_backward(x, None)
            return x * k, 3, w * 1

        @staticmethod
        def backward(ctx, g, _, h):
            return g, None, h

    lib = side.lib
    x = lib.ones(3, requires_grad=True)
    w = lib.ones(2)
    out, _, other = Mine.apply(x, 2.0, w)
    node = out.grad_fn
    assert other.grad_fn is node
    assert isinstance(node, side.Node)
    assert not isinstance(node, Mine)
    return (
        node.name(),
        type(node).__name__,
        [(type(n).__name__, i) for n, i in node.next_functions],
        node.metadata,
        node.requires_grad,
        node.needs_input_grad,
        len(node._input_metadata),
        tuple(node._input_metadata[0].shape),
        str(node._input_metadata[0].dtype),
        [out.output_nr, other.output_nr],
        [values(t) for t in node.saved_tensors],
        len(node._raw_saved_tensors),
        [values(v) for v in node.apply(x, None, w)],
        str(out).partition("grad_fn")[2],
    )


def test_the_node_shows_what_torchs_shows():
    """F-3, F-4, F-11, F-89, F-92."""
    theirs, ours = both(node_program)
    assert ours == theirs
