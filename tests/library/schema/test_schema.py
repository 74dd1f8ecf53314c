"""Schemas as objects, and reading them (C-7, C-12)."""

import pytest

import pullback as torch
from pullback.library.schema import parse_schema

TEXTS = [
    "a(Tensor x) -> Tensor",
    "ns::a.ov(Tensor x, Tensor? y=None, int n=3, float f=1.5, bool b=True) -> Tensor",
    'a(str s="hi", *, Scalar k=1, ScalarType? t=None, Device? d=None) -> ()',
    "a(Tensor[] x, Tensor?[] y, SymInt[] z, int[2] s=1, float[]? w=None) -> (Tensor, Tensor[])",
    "a(Tensor(a!) x, Tensor(b!)[] y, Tensor(c!)? z) -> ()",
    "a(Tensor(a) x) -> Tensor(a)",
    "a(Tensor(a -> *) x) -> Tensor(a)[]",
    "a(Tensor x) -> ((Tensor))",
    "a(Tensor x, Layout? l=None, Generator? g=None, MemoryFormat? m=None) -> (Tensor out, int n)",
    "a(float x=inf, float y=-inf, float z=1e-05, int[] k=[1, 2]) -> float",
    "a(Tensor x, ScalarType t=float32, Device d=cpu) -> Tensor",
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_of_a_schema_is_read_back_the_same(text):
    """C-7, C-12."""
    schema = parse_schema(text)
    assert str(schema) == text
    assert parse_schema(str(schema)) == schema


def test_schema_has_structured_arguments():
    """C-7."""
    schema = parse_schema("ns::op.ov(Tensor(a!) x, int n=3, *, Tensor? y=None) -> Tensor(a!)")
    assert (schema.name, schema.overload_name, schema.is_mutable) == ("ns::op", "ov", True)
    x, n, y = schema.arguments
    assert (x.name, str(x.type), x.has_default_value(), x.default_value) == (
        *("x", "Tensor"),
        *(False, None),
    )
    assert x.alias_info.is_write
    assert x.alias_info.before_set == x.alias_info.after_set == {"a"}
    assert (n.default_value, n.has_default_value(), n.kwarg_only, n.alias_info) == (
        *(3, True),
        *(False, None),
    )
    assert y.kwarg_only
    assert y.has_default_value()
    assert str(y.type) == "Optional[Tensor]"
    assert schema.returns[0].alias_info.is_write
    assert not parse_schema("a(Tensor x) -> Tensor").is_mutable


def test_alias_that_ends_anywhere_has_a_star_afterwards():
    """C-7, C-12."""
    (x,) = parse_schema("a(Tensor(a -> *) x) -> Tensor(a)[]").arguments
    assert x.alias_info.before_set == {"a"}
    assert x.alias_info.after_set == {"*"}


def test_returns_of_nothing_several_and_a_tuple_of_one():
    """C-12."""
    assert parse_schema("a() -> ()").returns == []
    assert [str(r.type) for r in parse_schema("a() -> (Tensor, int)").returns] == ["Tensor", "int"]
    assert [str(r.type) for r in parse_schema("a() -> (int)").returns] == ["int"]
    assert [str(r.type) for r in parse_schema("a() -> ((Tensor))").returns] == ["Tuple[Tensor]"]


def test_defaults_have_the_type_of_their_argument():
    """C-12."""
    schema = parse_schema(
        "a(float f=1, int[2] s=3, bool b=True, ScalarType t=float64, Device d='cpu', str? s2=None)"
        " -> Tensor"
    )
    values = [argument.default_value for argument in schema.arguments]
    assert values == [1.0, [3, 3], True, 7, torch.device("cpu"), None]
    assert schema.arguments[3].default is torch.float64
    assert isinstance(values[0], float)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a(Tensor x", 10),
        ("a(Foo x) -> int", 2),
        ("a(Tensor) -> Tensor", 8),
        ("a(Tensor x,) -> int", 11),
        ("a(Tensor x) Tensor", 12),
        ("a(Tensor x, Tensor x) -> Tensor", 19),
        ("a(int x=1, int y) -> Tensor", 15),
        ("a(Tensor x) -> Tensor $", 22),
        ("(Tensor x) -> Tensor", 0),
        ("a(int[x] n) -> int", 6),
        ("a(bool b=yes) -> int", 9),
    ],
)
def test_malformed_text_is_refused_at_the_place(text, place):
    """C-12."""
    with pytest.raises(RuntimeError, match="malformed") as caught:
        parse_schema(text)
    lines = str(caught.value).splitlines()
    assert f"character {place}" in lines[0]
    assert lines[2].index("^") - 2 == place
