"""Custom operators on torch and on pullback: the same program, the same outcome."""

import itertools
import logging
import warnings

import numpy as np
import pytest

import pullback

torch = pytest.importorskip("torch")
logging.getLogger("torch._library").setLevel(logging.ERROR)

_numbers = itertools.count()
ERRORS = (RuntimeError, TypeError, ValueError, AttributeError, NotImplementedError)


def shown(value):
    """A result in terms that both libraries share."""
    if isinstance(value, torch.Tensor | pullback.Tensor):
        detached = value.detach()
        return (str(detached.dtype), detached.numpy().round(5).tolist(), value.requires_grad)
    if isinstance(value, list | tuple):
        return type(value)(shown(one) for one in value)
    if isinstance(value, dict):
        return {key: shown(one) for key, one in value.items()}
    return value


def outcome(program, lib):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return shown(program(lib, f"diff::op{next(_numbers)}"))
        except ERRORS as error:
            return next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")


def agree(program):
    theirs, ours = outcome(program, torch), outcome(program, pullback)
    assert ours == theirs
    return ours


def make(lib, name, schema, kernel, mutates=(), **options):
    return lib.library.custom_op(name, kernel, mutates_args=mutates, schema=schema, **options)


def leaf(lib, *values):
    return lib.tensor(values or (1.0, 2.0), requires_grad=True)


# Schemas and binding -----------------------------------------------------------------------------

SCHEMAS = [
    "(Tensor x, Tensor? y=None, int n=3, float f=1.5, bool b=True) -> Tensor",
    '(str s="hi", *, Scalar k=1, ScalarType? t=None, Device? d=None) -> ()',
    "(Tensor[] x, Tensor?[] y, int[2] s=1, float[]? w=None) -> (Tensor, Tensor[])",
    "(Tensor(a!) x, Tensor(b!)[] y, Tensor(c!)? z) -> ()",
    "(Tensor(a) x) -> Tensor(a)",
    "(Tensor(a -> *) x) -> Tensor(a)[]",
    "(Tensor x) -> ((Tensor))",
    "(Tensor x, Layout? l=None, Generator? g=None) -> (Tensor out, int n)",
    "(Tensor x, float y=1) -> Tensor",
    "(Tensor x, SymInt[] s, SymInt n=3) -> Tensor",
    "(Tensor x",
    "(Foo x) -> int",
    "(Tensor) -> Tensor",
    "(int x=1, int y) -> Tensor",
    "(Tensor x,) -> Tensor",
]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_schemas_are_read_and_shown_alike(schema):
    """C-7, C-12."""

    def program(lib, name):
        space, _, op = name.partition("::")
        lib.library.define(name, schema)
        read = getattr(getattr(lib.ops, space), op).default._schema
        arguments = [
            (
                a.name, str(a.real_type), a.default_value, a.has_default_value(), a.kwarg_only,
                a.alias_info and (a.alias_info.is_write, a.alias_info.before_set,
                                  a.alias_info.after_set),
            )
            for a in read.arguments
        ]  # fmt: skip
        returns = [(r.name, str(r.type)) for r in read.returns]
        return str(read).replace(op, "op"), arguments, returns, read.is_mutable

    agree(program)


VALUES = [
    1, 1.5, True, "a", np.int64(2), np.float64(2.5), (1, 2), [1.5, 2], [True], [], 1j, [None],
    range(2), "cuda:1", np.array([1, 2]),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["int", "float", "str", "int[]", "float[]", "int[2]", "int?"])
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_arguments_are_converted_alike(kind, value):
    """C-5."""

    def program(lib, name):
        seen = []
        lib.library.define(name, f"({kind} v) -> ()")
        lib.library.impl(name, "default", seen.append)
        space, _, op = name.partition("::")
        getattr(getattr(lib.ops, space), op)(value)
        return type(seen[0]).__name__, seen[0]

    agree(program)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {}),
        (("x",), {}),
        (("x", 2), {"k": 3.0}),
        (("x", 1, 2.0), {}),
        (("x",), {"z": 1}),
        (("x", 1.5), {}),
        (("x", 1), {"n": 1}),
        ((1,), {}),
        ((), {"n": 2, "x": "x"}),
    ],
)
def test_calls_bind_alike(args, kwargs):
    """C-4."""

    def program(lib, name):
        op = make(
            lib, name, "(Tensor x, int n=3, *, float k=1.0) -> Tensor",
            lambda x, n=3, k=1.0: x * n * k,
        )  # fmt: skip
        x = lib.ones(2)
        given = [x if arg == "x" else arg for arg in args]
        named = {key: x if value == "x" else value for key, value in kwargs.items()}
        return op(*given, **named)

    agree(program)


def test_schemas_are_inferred_alike():
    """C-13 to C-16."""

    def program(lib, name):
        tensor = lib.Tensor

        def f(
            x: tensor, y: tensor | None, zs: list[tensor], n: int = 3, e: float = 1e-5,
            g: float = float("inf"), s: str = "a", t: lib.dtype = lib.float32, b: bool = True,
            *, k: int | None = None, q: lib.types.Number = 1,
        ) -> tuple[tensor, list[tensor], int]: ...  # fmt: skip

        infer = lib.library.infer_schema
        return [
            infer(f, mutates_args=()),
            infer(f, mutates_args=("x", "zs"), op_name="ns::f"),
            infer(f, mutates_args="unknown"),
        ]

    agree(program)


# Objects -----------------------------------------------------------------------------------------


def test_objects_describe_themselves_alike():
    """C-1, C-2, C-6."""

    def program(lib, name):
        space, _, op = name.partition("::")
        lib.library.define(name, "(Tensor x) -> Tensor")
        lib.library.define(f"{name}.b", "(int x) -> int")
        packet = getattr(getattr(lib.ops, space), op)
        one, other = packet.default, packet.b
        texts = [
            one.name(), other.name(), one.__name__, other.__name__, str(one), repr(other),
            str(packet), repr(packet), packet.__name__, packet.overloads(), one.namespace,
            one.is_view, one.overloadpacket is packet, packet.default is one,
        ]  # fmt: skip
        return [str(text).replace(op, "op") for text in texts]

    agree(program)


@pytest.mark.parametrize("missing", ["op", "overload"])
def test_missing_objects_are_missing_alike(missing):
    """C-2."""

    def program(lib, name):
        space, _, op = name.partition("::")
        lib.library.define(name, "(Tensor x) -> Tensor")
        if missing == "op":
            return getattr(lib.ops, space).nothing_of_this_name
        return getattr(getattr(lib.ops, space), op).nothing

    assert agree(program) is AttributeError


# Results -----------------------------------------------------------------------------------------

RESULTS = {
    "tensor": ("Tensor", lambda x: x * 2),
    "number for a tensor": ("Tensor", lambda x: 5),
    "one for two": ("(Tensor, Tensor)", lambda x: x * 2),
    "list for a tuple": ("(Tensor, Tensor)", lambda x: [x * 2, x * 3]),
    "tuple for a list": ("Tensor[]", lambda x: (x * 2,)),
    "something for nothing": ("()", lambda x: x * 2),
    "bool for an int": ("int", lambda x: True),
    "int for a float": ("float", lambda x: 1),
    "float for an int": ("int", lambda x: 2.5),
    "itself": ("Tensor", lambda x: x),
    "view": ("Tensor", lambda x: x[:1]),
    "two alike": ("(Tensor, Tensor)", lambda x: (x * 2,) * 2),
    "empty views": ("Tensor", lambda x: x[:0].clone()),
}


@pytest.mark.parametrize("what", RESULTS)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_results_are_checked_alike(what, requires_grad):
    """C-27, C-57."""
    kind, kernel = RESULTS[what]

    def program(lib, name):
        op = make(lib, name, f"(Tensor x) -> {kind}", kernel)
        return op(lib.ones(2, requires_grad=requires_grad))

    agree(program)


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


# vmap, fakes, writes -----------------------------------------------------------------------------


def test_vmap_rules_are_called_alike():
    """C-52, C-53."""

    def program(lib, name):
        seen = []
        op = make(lib, name, "(Tensor x, Tensor[] ys, float k=2.0) -> Tensor",
                  lambda x, ys, k=2.0: x * k)  # fmt: skip

        def rule(info, in_dims, x, ys, *rest):
            seen.append((info.batch_size, info.randomness, in_dims, tuple(x.shape), rest))
            return x * 2, in_dims[0]

        op.register_vmap(rule)
        out = lib.func.vmap(lambda x: op(x, [x, lib.ones(())]), in_dims=1)(lib.ones(2, 3))
        nested = lib.func.vmap(lib.func.vmap(lambda x: op(x, [], 3.0)))(lib.ones(4, 3, 2))
        return out, nested.shape == (4, 3, 2), seen

    agree(program)


@pytest.mark.parametrize("returned", [lambda x: x, lambda x: (x, 0, 0), lambda x: (x, (0, 0))])
def test_malformed_vmap_rules_fail_alike(returned):
    """C-54."""

    def program(lib, name):
        op = make(lib, name, "(Tensor x) -> Tensor", lambda x: x * 2)
        op.register_vmap(lambda info, in_dims, x: returned(x))
        return lib.func.vmap(op)(lib.ones(3))

    assert agree(program) is RuntimeError


def test_examples_run_one_by_one_without_a_rule_alike():
    """C-55."""

    def program(lib, name):
        op = make(lib, name, "(Tensor x) -> (Tensor, Tensor)", lambda x: (x * 2, x.sum()))
        return lib.func.vmap(op)(lib.ones(3, 2))

    agree(program)


def test_tensors_without_data_run_the_fake_alike():
    """C-48, C-49."""

    def program(lib, name):
        op = make(lib, name, "(Tensor x) -> Tensor", lambda x: x * 2)
        outcomes = []
        try:
            op(lib.empty(2, device="meta"))
        except ERRORS as error:
            outcomes.append(isinstance(error, RuntimeError))
        op.register_fake(lambda x: x.new_empty((x.shape[0], 7)))
        out = op(lib.empty(3, device="meta"))
        outcomes += [str(out.device), tuple(out.shape), str(out.dtype)]
        return outcomes

    agree(program)


def test_writes_are_counted_alike():
    """C-58, C-59."""

    def program(lib, name):
        op = make(
            lib, name, "(Tensor(a!) x, Tensor(b!)[] ys, Tensor z) -> ()",
            lambda x, ys, z: None, ("x", "ys"),
        )  # fmt: skip
        x, y, z = lib.ones(1), lib.ones(1), lib.ones(1)
        op(x, [y], z)
        tracked = leaf(lib)
        op(tracked, [], z)
        return [t._version for t in (x, y, z, tracked)], tracked.is_leaf

    agree(program)


# The lower level ---------------------------------------------------------------------------------


def failing(action):
    try:
        action()
    except ERRORS as error:
        return type(error).__name__
    return "nothing"


def test_lower_level_refuses_alike():
    """C-61 to C-63, C-66."""

    def program(lib, name):
        space = name.replace("::", "_")
        library = lib.library
        made = library.Library(space, "DEF")
        made.define("f(Tensor x) -> Tensor")
        outcomes = [
            failing(lambda: library.Library(space, "OTHER")),
            failing(lambda: library.Library("prim", "DEF")),
            failing(lambda: library.Library(space, "FRAGMENT")),
            failing(lambda: made.define("f(Tensor x) -> Tensor")),
            failing(lambda: made.define("g(Tensor x) -> Tensor", "WRONG")),
            failing(lambda: made.impl("f", 3, "CPU")),
            failing(lambda: made.impl("f", lambda x: x, "Toaster")),
            failing(lambda: made.impl(3, lambda x: x, "CPU")),
            failing(lambda: library.define("noname", "(Tensor x) -> Tensor")),
            failing(lambda: library.define(name, "f(Tensor x) -> Tensor")),
            failing(lambda: made.fallback(lambda op, *a: None, "CPU")),
            failing(lambda: library.fallthrough_kernel()),
            failing(lambda: library.register_autograd(3, lambda ctx, g: g)),
            failing(lambda: library.custom_op("noname", lambda x: x, mutates_args=())),
        ]
        made._destroy()
        return outcomes

    agree(program)


@pytest.mark.parametrize("key", ["CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd"])
def test_kernels_of_the_lower_level_are_differentiated_through_alike(key):
    """C-65."""

    def program(lib, name):
        lib.library.define(name, "(Tensor x) -> Tensor")
        lib.library.impl(name, key, lambda x: x * x)
        space, _, op = name.partition("::")
        x = leaf(lib)
        out = getattr(getattr(lib.ops, space), op)(x)
        out.sum().backward()
        return out.grad_fn.name(), x.grad

    agree(program)


def test_destroyed_libraries_take_their_operators_with_them_alike():
    """C-67."""

    def program(lib, name):
        space = name.replace("::", "_")
        with lib.library._scoped_library(space, "DEF") as made:
            made.define("f(Tensor x) -> Tensor")
            made.impl("f", lambda x: x * 2, "CPU")
            value = getattr(lib.ops, space).f(lib.ones(1))
        return value, hasattr(getattr(lib.ops, space), "f")

    agree(program)


# The older interface -----------------------------------------------------------------------------


def test_older_interface_agrees():
    """C-73 to C-80."""
    import torch._custom_ops  # noqa: F401 (found as an attribute below)

    def program(lib, name):
        old = lib._custom_ops
        seen = []
        old.custom_op(name, "(Tensor x, Tensor[] ys, int n) -> (Tensor, Tensor[])")
        old.impl(name, func=lambda x, ys, n: (x * n, [y * n for y in ys]))
        space, _, op = name.partition("::")
        run = getattr(getattr(lib.ops, space), op)
        refused = failing(lambda: run(leaf(lib), [], 2))

        def save(inputs, output):
            seen.append((type(inputs).__name__.replace(op, "op"), inputs._fields))
            return {"n": inputs.n, "x": inputs.x}

        def backward(ctx, saved, g, gs):
            seen.append((type(ctx).__name__, sorted(saved), g, list(gs)))
            return {"x": g * saved["n"], "ys": [one * saved["n"] for one in gs]}

        old.impl_save_for_backward(name, func=save)
        half = failing(lambda: run(leaf(lib), [], 2))
        old.impl_backward(name, func=backward)
        again = failing(lambda: old.impl_backward(name, func=backward))
        x, y = leaf(lib), leaf(lib)
        out, (other,) = run(x, [y], 3)
        out.sum().backward()
        return refused, half, again, seen, x.grad, y.grad, out, other

    agree(program)
