"""Object code is put into memory without LLVM; what is not understood is left to LLVM's loader."""

import ctypes
import math
import random
import sys
import threading

import pytest

pytest.importorskip("llvmlite")
from pullback.compiled.llvm import image
from pullback.compiled.llvm import machine as machines
from pullback.compiled.llvm.image import Image, NotLoadable
from pullback.compiled.llvm.machine import Code, machine

TEXT = """
@table = private constant [3 x double] [double 2.0, double 3.0, double 5.0]
@state = global i64 7
@zeros = global [600 x i64] zeroinitializer
declare double @pow(double, double)
define internal double @cubed(double %x) {
  %y = call double @pow(double %x, double 3.0)
  ret double %y
}
define double @sum(double %x, i64 %i) {
  %p = getelementptr double, ptr @table, i64 %i
  %a = load double, ptr %p
  %y = call double @cubed(double %x)
  %z = fmul double %y, 0x3FB999999999999A
  %w = fadd double %a, %z
  %s = load i64, ptr @state
  %n = add i64 %s, 1
  store i64 %n, ptr @state
  %q = getelementptr i64, ptr @zeros, i64 599
  store i64 %n, ptr %q
  ret double %w
}
"""
SUM = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_int64)
here = pytest.mark.skipif(
    sys.platform != "linux" or machine().target_machine(1).triple.split("-")[0] != "x86_64",
    reason="LLVM loads it on other systems",
)


@pytest.fixture(scope="module")
def code():
    return machine().compiled(TEXT, 1)


def word(loaded, name, number=0):
    return ctypes.c_int64.from_address(loaded.address(name) + 8 * number).value


@pytest.mark.parametrize("load", [pytest.param(Image, marks=here), machines._Engine])
def test_functions_constants_and_variables_are_in_place(code, load):
    loaded, other = load(code), load(code)
    function = SUM(loaded.address("sum"))
    assert [function(3.0, i) for i in range(3)] == [i + 0.1 * math.pow(3, 3) for i in (2, 3, 5)]
    assert (word(loaded, "state"), word(loaded, "zeros", 599)) == (10, 10)
    assert (word(other, "state"), word(other, "zeros", 599)) == (7, 0)  # each has its own


@here
def test_code_of_ours_needs_no_engine(monkeypatch):
    monkeypatch.setattr(machines, "_Engine", None)
    assert Code(TEXT, keep=False).address("sum")


@here
def test_code_cannot_be_written(code):
    loaded = Image(code)
    with open("/proc/self/maps") as maps:
        for line in maps:
            low, high = (int(one, 16) for one in line.split()[0].split("-"))
            if low <= loaded.address("sum") < high:
                assert line.split()[1][:3] == "r-x"
            if low <= loaded.address("state") < high:
                assert line.split()[1][:3] == "rw-"


@here
def test_what_is_not_understood_is_left_to_llvm(monkeypatch, code):
    monkeypatch.setattr(image, "_WHOLE_ADDRESS", 12345)
    with pytest.raises(NotLoadable):
        Image(code)
    by_engine = Code(TEXT, keep=False)
    assert SUM(by_engine.address("sum"))(0.0, 1) == 3.0


@here
def test_a_function_that_nobody_has_is_an_error_and_no_address():
    text = "declare void @nobody_has_this()\n@x = global ptr @nobody_has_this"
    with pytest.raises(NotLoadable, match="nobody_has_this"):
        Image(machine().compiled(text, 1))


@here
def test_bytes_that_were_changed_or_cut_off_never_end_the_process(code):
    """They are not run here: what is kept has a digest. But they are read."""
    draw = random.Random(5)
    refused = 0
    for number in range(4000):
        changed = bytearray(code)
        for _ in range(draw.choice((1, 1, 2, 8, 64))):
            at = draw.randrange(len(code)) if number % 2 else draw.randrange(64)
            at = draw.randrange(max(len(code) - 1200, 0), len(code)) if number % 3 == 0 else at
            changed[at] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
        if number % 5 == 0:
            del changed[draw.randrange(len(code)) :]
        try:
            loaded = Image(bytes(changed))
        except NotLoadable:
            refused += 1
        else:
            assert all(loaded.address(name) for name in loaded._found)
    assert 400 < refused < 4000


def test_threads_that_compile_at_once_get_code_of_their_own():
    found = []

    def run(number):
        code = Code(TEXT.replace("5.0", f"{number}.0"), keep=False)
        found.append(SUM(code.address("sum"))(0.0, 2) == number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(10, 16)]
    [one.start() for one in threads]
    [one.join() for one in threads]
    assert found == [True] * 6
