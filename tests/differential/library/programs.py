"""A program with custom operators, run on torch and on pullback."""

import itertools
import logging
import warnings

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
