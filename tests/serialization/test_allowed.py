"""What users allow in files, and what stays forbidden whatever they allow."""

import builtins
import functools
import io
import os
import pickle
import subprocess
import sys
import zoneinfo

import pytest

import pullback as torch
from pullback.serialization.forbidden import runs_programs


class Outer:
    value = 7

    class Inner:
        def __init__(self):
            self.x = 1


class Call:
    """A pickle that calls what it was given."""

    def __init__(self, target, *args):
        self.target, self.args = target, args

    def __reduce__(self):
        return self.target, self.args


def harmless(*args):
    return args


def file_of(obj, **options):
    file = io.BytesIO()
    torch.save(obj, file, **options)
    file.seek(0)
    return file


RUNNING = [
    *((os.execv, "/bin/true", ["true"]), (os.system, "true"), (os.getcwd,), (os._exit, 1)),
    *((subprocess.run, ["true"]), (subprocess.Popen, ["true"]), (sys.exit, 3)),
    *((eval, "1"), (exec, "1"), (compile, "1", "a", "eval"), (__import__, "os")),
    *((open, os.devnull), (breakpoint,), (globals,), (setattr, Outer, "value", 8)),
    *((pickle.loads, b"."), (functools.partial(os.system), "true")),
]


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize(
    "call", RUNNING, ids=lambda call: getattr(call[0], "__qualname__", "partial")
)
def test_no_file_runs_programs_whatever_is_allowed(call, protocol):
    target, *args = call
    if isinstance(target, functools.partial):
        pytest.skip("a partial object is pickled by its parts")
    file = file_of(Call(target, *args), pickle_protocol=protocol)
    with torch.serialization.safe_globals([target]):
        named, *_ = torch.serialization.get_unsafe_globals_in_checkpoint(file)
        assert named.endswith(target.__name__)
        file.seek(0)
        with pytest.raises(pickle.UnpicklingError, match="run programs or code"):
            torch.load(file)
    assert Outer.value == 7


@pytest.mark.parametrize(
    "call", RUNNING, ids=lambda call: getattr(call[0], "__qualname__", "partial")
)
def test_a_harmless_name_does_not_admit_what_runs_programs(call):
    target, *args = call
    file = file_of(Call(harmless, *args))
    with (
        torch.serialization.safe_globals([(target, f"{__name__}.harmless")]),
        pytest.raises(pickle.UnpicklingError, match="run programs or code"),
    ):
        torch.load(file)
    assert runs_programs(target)


def test_builtins_that_only_compute_run_no_programs():
    for one in (print, len, getattr, range, int, os.path.join, io.BytesIO, zoneinfo.ZoneInfo):
        assert not runs_programs(one)


@pytest.mark.parametrize("protocol", [2, 4])
def test_nested_classes_are_loaded_when_allowed(protocol):
    file = file_of(Outer.Inner(), pickle_protocol=protocol)
    with pytest.raises(pickle.UnpicklingError):
        torch.load(file)
    file.seek(0)
    with torch.serialization.safe_globals([Outer, getattr, Outer.Inner]):
        assert torch.load(file).x == 1


def test_class_methods_are_called_when_allowed():
    zone = zoneinfo.ZoneInfo
    with torch.serialization.safe_globals([getattr, zone, zone._unpickle]):
        assert torch.load(file_of(zone("UTC"))) is zone("UTC")


@pytest.mark.parametrize("name", ["len", "print", "sorted", "getattr"])
@pytest.mark.parametrize("protocol", [2, 4])
def test_builtin_functions_are_found_under_both_names_of_their_module(name, protocol):
    target = getattr(builtins, name)
    with torch.serialization.safe_globals([target]):
        assert torch.load(file_of(target, pickle_protocol=protocol)) is target


@pytest.mark.parametrize("name", ["__init__", "__subclasses__", "__class__"])
def test_getattr_reaches_neither_special_names_nor_what_was_not_allowed(name):
    with (
        torch.serialization.safe_globals([Outer, getattr]),
        pytest.raises(pickle.UnpicklingError, match="not allowed"),
    ):
        torch.load(file_of(Call(getattr, Outer, name)))
    with (
        torch.serialization.safe_globals([getattr]),
        pytest.raises(pickle.UnpicklingError, match="not allowed"),
    ):
        torch.load(file_of(Call(getattr, 1, "real")))
