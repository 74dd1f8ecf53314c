"""Custom operators on torch and on pullback: the same program, the same outcome."""

import numpy as np
import pytest

from tests.differential.library.programs import ERRORS, agree, leaf, make

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
