"""Which calls are machine code, that it depends on nothing but the call, and what threads see."""

import logging
import os
import platform
import subprocess
import sys
import threading

import numpy
import pytest

import pullback as torch
from pullback.operators.arrays import native
from pullback.operators.arrays.native import by_machine_code

pytest.importorskip("llvmlite")


@pytest.fixture(autouse=True)
def afresh():
    native.forget()
    yield
    native.forget()


def drawn(*shape, dtype="f"):
    return numpy.random.default_rng(0).standard_normal(shape).astype(dtype)


def test_equal_calls_give_equal_bits_from_the_first_on():
    a, b = drawn(40, 50), drawn(50, 70)
    first, *later = (by_machine_code("dot", (a, b))[0] for _ in range(30))
    assert all((one == first).all() for one in later)


@pytest.mark.parametrize("dtype", ["float16", "int64", "complex64", ">f4"])
def test_other_dtypes_are_left_to_numpy(dtype):
    a = drawn(40, 40).astype(dtype)
    assert by_machine_code("dot", (a, a)) is None


def test_arrays_of_other_classes_are_left_to_numpy():
    a = drawn(40, 40)
    assert by_machine_code("dot", (a, a)) is not None
    assert by_machine_code("dot", (a.view(numpy.recarray), a)) is None
    assert by_machine_code("dot", (a, numpy.ma.array(a))) is None


def test_sizes_that_always_vary_are_not_compiled_for_ever(monkeypatch):
    monkeypatch.setattr(native, "_MOST", 2)
    factor = drawn(4, 4)
    made = [by_machine_code("dot", (drawn(size, 4), factor)) for size in (64, 65, 66, 64)]
    assert [one is not None for one in made] == [True, True, False, True]


def test_a_formula_that_cannot_be_compiled_is_left_to_numpy(monkeypatch, caplog):
    from pullback.compiled.counting import counters
    from pullback.compiled.eager.formulas import FORMULAS
    from pullback.compiled.eager.kernel import log
    from pullback.compiled.llvm.machine import has_blas
    from pullback.compiled.runtime import native as entry

    def broken(b, x):
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setitem(FORMULAS, "broken", broken)
    assert native.is_wanted(), "a test before this one has left the switch off"
    assert native.makes_kernels.get(), "a test before this one has left kernels unmade"
    assert entry.is_usable(), "the native entry works no more"
    assert has_blas(), "products by machine code are not to be had any more"
    assert log.isEnabledFor(logging.WARNING), "a test before this one has silenced the log"
    assert by_machine_code("broken", (drawn(4),)) is None
    assert "a mistake of ours" in caplog.text
    assert counters["errors"].pop("broken: ZeroDivisionError: a mistake of ours") == 1


def test_threads_that_meet_in_a_kernel_get_what_one_alone_gets():
    a, b = drawn(200, 300), drawn(300, 200)
    wanted = by_machine_code("dot", (a, b))[0]
    wrong = []

    def work():
        same = [(by_machine_code("dot", (a, b))[0] == wanted).all() for _ in range(50)]
        wrong.append(not all(same))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert wrong == [False] * 4


def test_bits_do_not_depend_on_the_number_of_threads():
    x = torch.tensor(drawn(512, 256), requires_grad=True)
    images = torch.tensor(drawn(64, 64, 16, 16), requires_grad=True)
    row, channels = torch.ones(256, requires_grad=True), torch.ones(64, requires_grad=True)
    before = torch.get_num_threads()
    functional = torch.nn.functional

    def results():
        normed = functional.layer_norm(x, (256,), row, row)
        mixed = functional.gelu(normed @ x.t()).softmax(-1)
        norm = functional.batch_norm(images, None, None, channels, channels, training=True)
        loss = (mixed * mixed).sum() + (norm**3).sum()
        return [loss, *torch.autograd.grad(loss, [x, images, row, channels])]

    made = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            made.append([one.detach().numpy().tobytes() for one in results()])
    finally:
        torch.set_num_threads(before)
    assert made[0] == made[1] == made[2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_runs_and_makes_kernels():
    a, b = drawn(60, 60), drawn(60, 60)
    wanted = by_machine_code("dot", (a, b))[0]
    child = os.fork()
    if child == 0:
        same = (by_machine_code("dot", (a, b))[0] == wanted).all()
        new = by_machine_code("dot", (a, b[:, :50]))
        os._exit(0 if same and new is not None else 1)
    assert os.waitpid(child, 0)[1] == 0


def run(source, **environment):
    return subprocess.run(
        [sys.executable, "-c", source],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()


SOURCE = """
import sys, pullback as torch
x = torch.ones({size}, {size})
(x @ x).softmax(-1)
print("llvmlite" in sys.modules, torch.backends.native.is_enabled())
"""


def test_the_compiler_is_loaded_for_large_tensors_whose_kernels_are_not_kept(tmp_path):
    assert run(SOURCE.format(size=10), PULLBACK_CACHE=str(tmp_path))[0] == "False"
    assert run(SOURCE.format(size=100), PULLBACK_CACHE=str(tmp_path)) == ["True", "True"]
    if sys.platform == "linux" and platform.machine() == "x86_64":  # elsewhere LLVM loads the code
        assert run(SOURCE.format(size=100), PULLBACK_CACHE=str(tmp_path)) == ["False", "True"]


def test_the_environment_and_the_switch_turn_it_off():
    assert run(SOURCE.format(size=100), PULLBACK_NATIVE="0") == ["False", "False"]
    x = torch.ones(100, 100)
    with torch.backends.native.flags(enabled=False):
        assert not torch.backends.native.is_enabled()
        x @ x
    assert not native._kernels
    assert torch.backends.native.is_enabled()
    assert torch.backends.native.set_flags(True) == (True,)


def test_products_that_blas_has_as_quick_are_left_to_it():
    assert by_machine_code("dot", (drawn(4, 300), drawn(300, 300))) is None
    assert by_machine_code("linear", (drawn(4, 300), drawn(300, 300), drawn(300))) is None
