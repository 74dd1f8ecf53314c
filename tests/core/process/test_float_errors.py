"""NumPy's floating-point errors: of our own calls nothing is heard, of the program's as before."""

import contextvars
import io
import subprocess
import sys
import threading

import numpy as np
import pytest

import pullback as torch

ZERO = np.zeros(2, np.float32)


def divide_ours():
    x = torch.zeros(2, requires_grad=True)
    (x / x).sum().backward()
    (
        torch.log(torch.zeros(2)),
        torch.linalg.norm(torch.tensor([1e30, 1e30])),
        torch.tensor([1e30]) ** 3,
    )
    torch.tensor([3e38]).mean() * 4, torch.tensor([float("inf")] * 2).var()


def divide_own():
    return ZERO / ZERO


def in_new_thread(function, **state):
    """What `function` gives in a thread that has not used pullback, with NumPy's errors set so."""
    results = []

    def run():
        np.seterr(**state)
        try:
            results.append(function())
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return results[0]


@pytest.mark.parametrize("way", ["warn", "raise", "ignore", "print"])
def test_operators_are_silent_however_numpys_errors_are_set(way, capfd):
    assert in_new_thread(divide_ours, all=way) is None
    assert capfd.readouterr().err == ""


def both():
    divide_ours()
    return divide_own()


def test_numpys_warnings_of_the_programs_own_calls_remain():

    def run():
        divide_ours()
        with pytest.warns(RuntimeWarning, match="invalid value") as heard:
            divide_own()
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            np.log(ZERO)
        with pytest.warns(RuntimeWarning, match="overflow"):
            np.array([1e30], np.float32).sum() * np.float32(1e30)
        with pytest.warns(RuntimeWarning, match="invalid value"):
            np.var(np.array([np.inf]))
        return heard[0].filename

    assert in_new_thread(run, divide="warn", over="warn", invalid="warn") == __file__


def test_numpys_errors_of_the_programs_own_calls_remain():
    assert isinstance(in_new_thread(both, invalid="raise"), FloatingPointError)


def test_numpys_silence_in_the_programs_own_calls_remains():
    assert np.isnan(in_new_thread(both, all="ignore")).all()


def test_numpys_errors_of_the_programs_own_calls_are_printed(capfd):
    in_new_thread(both, invalid="print")
    assert "invalid value encountered" in capfd.readouterr().err


def test_functions_and_logs_of_the_programs_own_are_told():
    told, log = [], io.StringIO()

    def run():
        np.seterrcall(lambda error, flag: told.append(error))
        np.seterr(all="call")
        both()

    def logged():
        np.seterrcall(log)
        np.seterr(all="log")
        both()

    in_new_thread(run)
    in_new_thread(logged)
    assert told == ["invalid value"]
    assert "invalid value encountered" in log.getvalue()


def test_numpys_own_contexts_work_as_before():
    def run():
        divide_ours()
        with np.errstate(all="ignore"):
            divide_own()
        with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
            divide_own()
        with pytest.warns(RuntimeWarning, match="invalid value"):
            divide_own()

    assert in_new_thread(run, invalid="warn") is None


def test_a_function_of_the_user_inside_an_operator_is_the_users():
    class Divide(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return torch.from_numpy(divide_own())

        @staticmethod
        def backward(ctx, g):
            return g

    def run():
        with pytest.warns(RuntimeWarning, match="invalid value"):
            Divide.apply(torch.ones(2, requires_grad=True))

    assert in_new_thread(run, invalid="warn") is None


def test_a_copied_context_hears_as_the_one_it_was_copied_from():
    def run():
        divide_ours()
        with pytest.warns(RuntimeWarning, match="invalid value"):
            contextvars.copy_context().run(both)

    assert in_new_thread(run, invalid="warn") is None


BLOCKS = {
    "all": {"all": "ignore"},
    "one": {"over": "ignore"},
    "as it is": {"over": "warn"},
    "raise": {"all": "raise"},
}
LEFT = """
import sys
import warnings

warnings.simplefilter("error")
import numpy
import pullback as torch


def ours():
    x = torch.tensor([3e38], requires_grad=True)
    (x * 4 / 0).sum().backward()


with numpy.errstate(**STATE):
    with numpy.errstate(all="ignore"), torch.no_grad():
        torch.zeros(2) / 0
    ours()
ours()
assert numpy.geterr() == {"divide": "call", "over": "call", "under": "ignore", "invalid": "call"}
try:
    numpy.zeros(1) / numpy.zeros(1)
except RuntimeWarning:
    pass
else:
    raise AssertionError("the program's own call is not heard")
numpy.seterr(all="ignore")  # what is dropped at the very end says nothing
numpy.seterrcall(None)
torch.zeros(2) / 0
"""


@pytest.mark.parametrize("block", BLOCKS)
def test_a_first_use_inside_a_block_counts_after_it_too(block):
    """What was changed inside it was gone with it, and every operator warned."""
    script = LEFT.replace("STATE", repr(BLOCKS[block]))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_where_all_is_ignored_at_first_functions_and_logs_hear_later():
    told, log = [], io.StringIO()

    def run(heard, way):
        np.seterrcall(heard)
        np.seterr(all="ignore")
        both()
        np.seterr(all=way)
        both()

    for heard, way in ((lambda error, flag: told.append(error), "call"), (log, "log")):
        thread = threading.Thread(target=run, args=(heard, way))
        thread.start()
        thread.join()
    assert told == ["invalid value"]
    assert log.getvalue() == "Warning: invalid value encountered in divide\n"


def test_a_settled_context_keeps_its_state_in_blocks_of_the_users():
    def run():
        divide_ours()
        heard = np.geterrcall()
        with np.errstate(all="ignore"):
            divide_ours()
            assert np.geterrcall() is heard
        divide_ours()
        return np.geterrcall() is heard

    assert in_new_thread(run) is True
