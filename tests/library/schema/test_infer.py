# ruff: noqa: UP006, UP007, UP035, UP045, B008 (old spellings count too)
"""Schemas from type hints (C-13 to C-19)."""

import collections.abc
import typing
from typing import List, Optional, Sequence, Tuple, Union

import pytest

import pullback as torch
from pullback import Tensor
from pullback.library import infer_schema
from pullback.types import Number


def annotated(annotation, result=Tensor):
    def function(x): ...

    function.__annotations__ = {"x": annotation, "return": result}
    return function


def test_schema_starts_at_the_parenthesis_unless_a_name_is_given():
    """C-13, C-14, C-18."""

    def f(
        x: Tensor, y: Tensor | None, n: int = 3, e: float = 1e-5, g: float = float("inf"),
        s: str = "a", d: torch.device = torch.device("cpu"), t: torch.dtype = torch.float32,
        b: bool = True, *, k: int | None = None, q: Number = 1,
    ) -> Tensor: ...  # fmt: skip

    text = (
        '(Tensor x, Tensor? y, SymInt n=3, float e=1e-05, float g=inf, str s="a", Device d="cpu", '
        "ScalarType t=float32, bool b=True, *, SymInt? k=None, Scalar q=1) -> Tensor"
    )
    assert infer_schema(f, mutates_args=()) == text
    assert infer_schema(f, mutates_args=(), op_name="ns::f") == "ns::f" + text


ACCEPTED = [
    (Tensor, "Tensor"),
    (int, "SymInt"),
    (float, "float"),
    (bool, "bool"),
    (str, "str"),
    (Number, "Scalar"),
    (Union[int, float, bool], "Scalar"),
    (torch.dtype, "ScalarType"),
    (torch.device, "Device"),
    (Optional[Tensor], "Tensor?"),
    (Tensor | None, "Tensor?"),
    (Optional[int], "SymInt?"),
    (Optional[Number], "Scalar?"),
    (Optional[torch.dtype], "ScalarType?"),
    (Optional[torch.device], "Device?"),
    (Optional[str], "str?"),
    (List[Tensor], "Tensor[]"),
    (list[Tensor], "Tensor[]"),
    (Sequence[int], "SymInt[]"),
    (collections.abc.Sequence[float], "float[]"),
    (list[bool], "bool[]"),
    (list[Number], "Scalar[]"),
    (list[Tensor | None], "Tensor?[]"),
    (list[Tensor | None], "Tensor?[]"),
    (Optional[list[int]], "SymInt[]?"),
    (list[float] | None, "float[]?"),
    (Optional[Sequence[bool]], "bool[]?"),
]


@pytest.mark.parametrize(("annotation", "kind"), ACCEPTED, ids=lambda value: str(value))
def test_parameter_annotation_has_its_schema_type(annotation, kind):
    """C-14."""
    assert infer_schema(annotated(annotation), mutates_args=()) == f"({kind} x) -> Tensor"


@pytest.mark.parametrize(
    "annotation",
    [list[str], Optional[list[Tensor]], dict, tuple[int, int], tuple, typing.Any, complex, object,
     Union[int, float], list[torch.dtype], 3],
    ids=str,
)  # fmt: skip
def test_other_parameter_annotations_are_refused(annotation):
    """C-14, C-17."""
    with pytest.raises(ValueError, match=r"parameter 'x'.*Accepted"):
        infer_schema(annotated(annotation), mutates_args=())


def test_tuple_parameter_is_refused_with_the_list_form():
    """C-17."""
    with pytest.raises(ValueError, match=r"list\[int\]"):
        infer_schema(annotated(tuple[int, int]), mutates_args=())


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        (None, "()"),
        (Tensor, "Tensor"),
        (List[Tensor], "Tensor[]"),
        (list[Tensor], "Tensor[]"),
        (int, "SymInt"),
        (float, "float"),
        (bool, "bool"),
        (Number, "Scalar"),
        (Tuple[Tensor], "((Tensor))"),
        (tuple[Tensor, int], "(Tensor, SymInt)"),
        (tuple[Tensor, list[Tensor]], "(Tensor, Tensor[])"),
    ],
    ids=str,
)
def test_return_annotation_has_its_schema_type(result, kind):
    """C-15."""
    assert infer_schema(annotated(Tensor, result), mutates_args=()) == f"(Tensor x) -> {kind}"


@pytest.mark.parametrize("result", [Optional[Tensor], str, list[int], tuple[Tensor, ...]], ids=str)
def test_other_return_annotations_are_refused(result):
    """C-15."""
    with pytest.raises(ValueError, match="the return has the unsupported type"):
        infer_schema(annotated(Tensor, result), mutates_args=())


def test_mutated_arguments_are_marked_by_position():
    """C-16."""

    def f(n: int, x: Tensor, y: list[Tensor], z: Tensor | None) -> None: ...

    assert infer_schema(f, mutates_args=("x", "y")) == (
        "(SymInt n, Tensor(a1!) x, Tensor(a2!)[] y, Tensor? z) -> ()"
    )
    assert infer_schema(f, mutates_args="unknown") == (
        "(SymInt n, Tensor(a1!) x, Tensor(a2!)[] y, Tensor(a3!)? z) -> ()"
    )


def no_hint(x, y: Tensor) -> Tensor: ...
def no_return(x: Tensor): ...
def positional_only(x: Tensor, /) -> Tensor: ...
def many(*args: Tensor) -> Tensor: ...
def keywords(**kwargs: Tensor) -> Tensor: ...
def list_default(x: Tensor, n: list[int] = [1]) -> Tensor: ...  # noqa: B006 (refused)
def simple(x: Tensor, n: int) -> Tensor: ...


@pytest.mark.parametrize(
    ("function", "mutates", "says"),
    [
        (no_hint, (), "parameter 'x' has no type annotation"),
        (no_return, (), "no return annotation"),
        (positional_only, (), "positional-only"),
        (many, (), "args"),
        (keywords, (), "kwargs"),
        (list_default, (), "default of the unsupported type list"),
        (simple, ("z",), "names .'z'."),
        (simple, ("n",), "names 'n', which is a SymInt"),
        (simple, "x", "the string 'x'"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_cannot_be_a_schema_is_refused_with_the_signature(function, mutates, says):
    """C-17, C-18."""
    with pytest.raises(ValueError, match=says) as caught:
        infer_schema(function, mutates_args=mutates)
    assert f"{function.__name__}(" in str(caught.value)


def test_string_annotations_are_looked_up_in_the_module():
    """C-19."""

    def f(x: "Tensor", y: "list[Tensor]", z: List["Tensor"]) -> "Tensor": ...

    assert infer_schema(f, mutates_args=()) == "(Tensor x, Tensor[] y, Tensor[] z) -> Tensor"

    def g(x: "NotThere") -> Tensor: ...  # noqa: F821 (that is the point)

    with pytest.raises(ValueError, match=r"'NotThere'.*does not name a type.*importable"):
        infer_schema(g, mutates_args=())
