"""What LLVM says of the processor is asked once: the next process needs no LLVM at all."""

import os
import subprocess
import sys

import pytest

llvm = pytest.importorskip("llvmlite.binding")
from pullback.compiled.llvm import processor as processors
from pullback.compiled.llvm.image import Image, NotLoadable
from pullback.compiled.llvm.machine import machine
from pullback.compiled.llvm.processor import processor

PROGRAM = """
import sys
import pullback as torch
x, w = torch.ones(4, 3), torch.full((3, 5), 0.5, requires_grad=True)
f = torch.compile(lambda x: (x @ w).tanh().sum())
f(x).backward()
f(x[:2]).backward()
print("llvmlite" in sys.modules, w.grad.sum().item())
"""


@pytest.fixture(autouse=True)
def asked_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("PULLBACK_CACHE", str(tmp_path))
    processor.cache_clear()
    yield
    processor.cache_clear()


def test_what_is_kept_is_what_llvm_says():
    asked = processor()
    processor.cache_clear()
    assert asked == processor()
    assert asked.name == llvm.get_host_cpu_name()
    assert asked.features == llvm.get_host_cpu_features().flatten()
    for name, there in llvm.get_host_cpu_features().items():
        assert asked.has(name) is bool(there)


def test_another_library_or_processor_is_asked_again(monkeypatch):
    signs = processors._signs()
    if signs is None:
        pytest.skip("nothing is kept on this system")
    processor()
    monkeypatch.setattr(llvm, "get_host_cpu_name", lambda: "another")
    processor.cache_clear()
    assert processor().name != "another"
    monkeypatch.setattr(processors, "_signs", lambda: signs + " ")
    processor.cache_clear()
    assert processor().name == "another"


def test_a_second_process_loads_no_llvm():
    try:
        Image(machine().compiled("define void @f() {\n  ret void\n}", 1))
    except NotLoadable:
        pytest.skip("LLVM loads code on this system")
    said = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True,
            env={**os.environ, "PULLBACK_NATIVE": "1"},
        ).stdout.split()
        for _ in range(2)
    ]  # fmt: skip
    assert [one[0] for one in said] == ["True", "False"]
    assert said[0][1] == said[1][1]
