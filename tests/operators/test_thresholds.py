"""Kernels for larger arrays give what those for small ones give, on the samples of all operators.

The sizes at which they take over are brought down, so that the few elements of a sample are many.
Kernels that are declared with a condition are not reached so: test_kernels.py tries them.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import lowered

sys.path.pop(0)

# Numbers that are compared with and choose no kernel -> what they are.
OTHERS = {
    "limits of what there can be": "_MOST _MOST_PARTS _MOST_ROUNDS _FIRST_HIDDEN",
    "values of elements and options": """
        _FAR _FITS_ALL _LARGEST_FACTORIAL _LARGEST_PRODUCT _SAME_FROM
    """,
    "as many as the machine adds at once": "_LANES",
}

BOUNDS = {4: 4e-6, 8: 1e-13}  # of the largest number in an array, by bytes


def made(to, folder):
    file = folder / f"{to}.pickle"
    script = Path(lowered.__file__)
    subprocess.run([sys.executable, script, to, file], check=True, env=os.environ)
    return pickle.loads(file.read_bytes())


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    return made("inline", tmp_path_factory.mktemp("inline"))


def differs(a, b):
    if isinstance(a, str) or isinstance(b, str) or a is None or b is None:
        return a is not b and a != b
    if a.shape != b.shape or a.dtype != b.dtype:
        return True
    bound = BOUNDS.get(a.real.itemsize, 0)
    with numpy.errstate(all="ignore"):
        finite = a[numpy.isfinite(a)]
        scale = numpy.abs(finite).max(initial=1) if a.dtype.kind in "fc" else 0
        return not numpy.allclose(a, b, rtol=bound, atol=bound * scale, equal_nan=True)


@pytest.mark.parametrize("to", ["2", "7"])
def test_kernels_for_many_elements_agree_with_those_for_few(to, usual, tmp_path):
    found = made(to, tmp_path)
    wrong = []
    for (name, dtype), expected in usual.items():
        for number, (a, b) in enumerate(zip(expected, found[name, dtype], strict=True)):
            pairs = [(a, b)] if isinstance(a, str) or isinstance(b, str) else zip(a, b, strict=True)
            if any(differs(one, other) for one, other in pairs):
                wrong.append((name, dtype, number))
    assert not wrong


def test_every_number_that_sizes_are_compared_with_is_brought_down():
    known = {name for names in OTHERS.values() for name in names.split()}
    for module, name in lowered.compared_numbers():
        _, attribute, number = lowered.place_of(module, name)
        if type(number) is int and number > 7 and not lowered.chooses(name):
            assert attribute in known, (module, name, number)
