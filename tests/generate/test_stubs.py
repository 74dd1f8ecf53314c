"""The types of the stubs are true: every sample's arguments fit them, and so does its result."""

import ast
import collections.abc
import contextlib
import inspect
import pathlib
import types
import typing

import pytest

import pullback
from pullback.testing import SAMPLES, resolve, samples_for

PACKAGE = pathlib.Path(pullback.__file__).parent
STUBS = {
    "": "__init__.pyi",
    "Tensor": "core/methods.pyi",
    "nn.functional": "nn/functional.pyi",
    "linalg": "linalg.pyi",
    "special": "special.pyi",
    "fft": "fft.pyi",
    "masked": "masked/__init__.pyi",
    "sparse": "sparse.pyi",
}


def read(path):
    """Name -> its definitions, and the namespace that annotations are read in."""
    tree = ast.parse((PACKAGE / path).read_text(encoding="utf-8"))
    scope = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and all(a.asname[0] == "_" for a in node.names):
            exec(compile(ast.Module([node], []), path, "exec"), scope)
    body = tree.body
    if path == "core/methods.pyi":
        (body,) = (node.body for node in tree.body if isinstance(node, ast.ClassDef))
    found = {}
    for node in body:
        marks = [ast.unparse(one) for one in getattr(node, "decorator_list", ())]
        if isinstance(node, ast.FunctionDef) and marks in ([], ["_overload"]):
            found.setdefault(node.name, []).append(node)
    return found, scope


READ = {space: read(path) for space, path in STUBS.items()}


def fits(value, kind):
    """Whether a value is of an annotation's type."""
    if kind is typing.Any:
        return True
    if kind is None or kind is type(None):
        return value is None
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return any(fits(value, one) for one in inside)
    if origin is typing.Literal:
        return any(value is one for one in inside)
    if origin is typing.Unpack:
        return True
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if inside[-1:] == (...,):
            return all(fits(one, inside[0]) for one in value)
        return len(value) == len(inside) and all(map(fits, value, inside))
    if origin is not None:
        if not isinstance(value, origin) or isinstance(value, str):
            return False
        if origin in (list, collections.abc.Sequence):
            return all(fits(one, inside[0]) for one in value)
        return True
    if kind is float:
        return isinstance(value, int | float)
    if kind is complex:
        return isinstance(value, int | float | complex)
    return isinstance(value, kind)


def signature(node, scope):
    """The definition as an `inspect.Signature`, its annotations read."""

    def seen(hint):
        return eval(ast.unparse(hint), scope) if hint is not None else typing.Any

    given, parameters = node.args, []
    plain = [*given.posonlyargs, *given.args]
    defaults = [inspect.Parameter.empty] * (len(plain) - len(given.defaults)) + [None] * len(
        given.defaults
    )
    for one, default in zip(plain, defaults, strict=True):
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(
            inspect.Parameter(one.arg, kind, default=default, annotation=seen(one.annotation))
        )
    if given.vararg:
        kind = inspect.Parameter.VAR_POSITIONAL
        parameters.append(
            inspect.Parameter(given.vararg.arg, kind, annotation=seen(given.vararg.annotation))
        )
    for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        empty = inspect.Parameter.empty if default is None else None
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(
            inspect.Parameter(one.arg, kind, default=empty, annotation=seen(one.annotation))
        )
    if given.kwarg:
        parameters.append(inspect.Parameter(given.kwarg.arg, inspect.Parameter.VAR_KEYWORD))
    return inspect.Signature(parameters, return_annotation=seen(node.returns))


def misfit(shape, args, kwargs):
    """Why a call does not fit a signature; None where it does."""
    try:
        bound = shape.bind(*args, **kwargs)
    except TypeError as error:
        return str(error)
    for name, value in bound.arguments.items():
        one = shape.parameters[name]
        values = value if one.kind is one.VAR_POSITIONAL else [value]
        if one.kind is not one.VAR_KEYWORD:
            for each in values:
                if not fits(each, one.annotation):
                    return f"{name}: {type(each).__name__} is no {one.annotation}"
    return None


def place(name):
    space, _, own = name.rpartition(".")
    return space, own


# Methods that take their arguments in another order than the functions of their names.
OTHERS = {"where"}
NAMES = [name for name in SAMPLES if resolve(pullback, name) is not None]
TYPED = [name for name in NAMES if place(name)[1] in READ.get(place(name)[0], ({},))[0]]


def check(space, own, call):
    """Every sample fits one of the definitions, and what it gives fits that one's result."""
    name = f"{space}.{own}" if space else own
    found, scope = READ[space]
    shapes = [signature(node, scope) for node in found[own]]
    for sample in list(samples_for(name if name in SAMPLES else own))[:12]:
        why = [misfit(one, (sample.input, *sample.args), sample.kwargs) for one in shapes]
        assert None in why, (sample, why)
        with contextlib.suppress(NotImplementedError):
            result = call(sample)
            wanted = shapes[why.index(None)].return_annotation
            assert fits(result, wanted), (sample, type(result), wanted)


@pytest.mark.parametrize("name", TYPED)
def test_samples_fit_the_types_and_so_do_their_results(name):
    function = resolve(pullback, name)
    check(*place(name), lambda sample: sample.call(function))


@pytest.mark.parametrize("name", [name for name in NAMES if name in READ["Tensor"][0]])
def test_samples_fit_the_types_of_methods(name):
    first = next(samples_for(name), None)
    if not isinstance(getattr(first, "input", None), pullback.Tensor) or name in OTHERS:
        pytest.skip("as a method it takes other arguments")
    check("Tensor", name, lambda s: getattr(s.input, name)(*s.args, **s.kwargs))
