"""Modules and functions that are not here say why, in a sentence."""

import importlib
import re

import pytest

import pullback as torch
from pullback import cli

MODULES = [
    *("ao", "ao.quantization", "ao.nn", "quantization", "package"),
    *("utils.bottleneck", "utils.throughput_benchmark"),
]


@pytest.mark.parametrize("name", MODULES)
def test_a_module_that_is_not_here_can_be_imported_and_says_why(name):
    module = importlib.import_module(f"pullback.{name}")
    with pytest.raises(AttributeError, match=rf"pullback\.{name} has no 'something': .+\. .+\."):
        module.something
    assert not hasattr(module, "something")


def test_extensions_are_refused_when_they_are_built():
    from pullback.utils import cpp_extension

    assert cpp_extension.CUDA_HOME is None
    assert not cpp_extension.is_ninja_available()
    assert cpp_extension.BuildExtension.with_options(use_ninja=False)
    for name in ("load", "load_inline", "CppExtension", "CUDAExtension", "BuildExtension"):
        with pytest.raises(RuntimeError, match=rf"{name} is not possible.*custom operator"):
            getattr(cpp_extension, name)("name", ["file.cpp"])


def test_backends_of_users_are_refused():
    with pytest.raises(RuntimeError, match="custom operators"):
        torch.utils.rename_privateuse1_backend("mine")
    with pytest.raises(RuntimeError, match="custom operators"):
        torch.utils.generate_methods_for_privateuse1_backend()
    with pytest.raises(AttributeError, match=r"benchmark\.Timer"):
        torch.utils.ThroughputBenchmark
    with pytest.raises(AttributeError, match="no_such_name"):
        torch.utils.no_such_name


@pytest.mark.parametrize("path", ["onnx.export", "nn.qat", "jit.generate_bytecode", "detach_copy"])
def test_a_name_that_is_not_here_says_why(path):
    module, _, name = f"pullback.{path}".rpartition(".")
    with pytest.raises(AttributeError, match=rf"has no '{name}': .+\.$"):
        getattr(importlib.import_module(module), name)


def test_a_name_that_nobody_has_is_an_ordinary_error():
    with pytest.raises(AttributeError, match=r"^module 'pullback\.nn' has no attribute 'Linaer'$"):
        torch.nn.Linaer


@pytest.mark.parametrize("path", ["", "nn", "optim", "cpu", "autograd.forward_ad", "cuda"])
def test_errors_call_a_module_as_the_program_imported_it(path, monkeypatch):
    module = importlib.import_module(f"pullback.{path}".rstrip("."))
    for package in ("pullback", "torch"):  # while pullback stands in
        monkeypatch.setattr(torch, "__name__", package)
        called = re.escape(f"{package}.{path}".rstrip("."))
        with pytest.raises(AttributeError, match=f"^module '{called}' has no attribute 'Nope'"):
            module.Nope


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("import torch.utils.mobile_optimizer", "no other runtime"),
        ("from torch.onnx import export", "no other runtime"),
        ("import torch\ntorch.zeros(2).int_repr()", "quantised"),
    ],
)
def test_pullback_run_adds_the_reason_to_errors_that_cannot_have_it(tmp_path, program, why):
    script = tmp_path / "script.py"
    script.write_text(program)
    with pytest.raises((AttributeError, ImportError)) as failed:
        cli.run_script(str(script), [])
    assert any(why in note for note in failed.value.__notes__)


def test_errors_about_other_names_leave_as_they_are(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import no_such_package")
    with pytest.raises(ModuleNotFoundError) as failed:
        cli.run_script(str(script), [])
    assert not hasattr(failed.value, "__notes__")
