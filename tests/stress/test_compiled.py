"""A short form of the part `compiled` of `make stress`, under allocators that check."""

import ctypes.util
import os
import subprocess
import sys
from pathlib import Path

import pullback as torch
from stress import compiled
from stress.report import Report

ROOT = Path(__file__).parents[2]


def test_random_programs_and_long_lives_agree_with_eager():
    report = compiled.run(120, seed=3, calls=12)
    assert not report.findings, str(report)
    assert report.counts["programs"] == 12
    assert report.counts["families"] > 0


def test_a_difference_is_found():
    report = Report("compiled", 0)
    array = compiled.numpy.ones(3, "f4")
    assert compiled.difference([array], [array * 2]) == "result 0: other values"
    assert compiled.difference(None, [array]) == "one side raises"
    assert "float64" in compiled.difference([array.astype("f8")], [array])
    assert not report.findings


def test_calls_are_clean_under_a_checking_allocator():
    """Writes beyond blocks and uses after free end the process."""
    checked = {
        **os.environ, "PYTHONMALLOC": "debug", "MALLOC_CHECK_": "3", "MALLOC_PERTURB_": "165",
        "PYTHONPATH": str(ROOT), "PULLBACK_KEEP_MEMORY": "0",
    }  # fmt: skip
    if ctypes.util.find_library("c_malloc_debug"):  # where glibc has its checks since 2.34
        checked["LD_PRELOAD"] = "libc_malloc_debug.so.0"
    text = (
        "import sys; from stress.compiled import live; from stress.report import Report\n"
        "import time; report = Report('compiled', 0); live(report, 300, time.monotonic() + 60)\n"
        "sys.exit(bool([what for what in report.findings if 'results' in what]))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text], env=checked, cwd=ROOT, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert torch.is_grad_enabled()
