"""Each row of the cheat sheet's tables of arrays means the same in pullback and in NumPy."""

import re
from pathlib import Path

import numpy as np
import pytest

import pullback as torch

PAGE = (Path(__file__).parents[2] / "docs" / "cheat-sheet.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ([^|]+) \| `([^`]+)` \| `([^`]+)` \| `[^`]+`.*\|$", re.MULTILINE)
ARRAYS = ("Making arrays", "Shapes", "Computing")


def rows(*headings):
    for heading in headings:
        section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
        lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
        found = ROW.findall(section)
        assert len(found) == len(lines), heading
        for title, ours, theirs in found:
            yield pytest.param(ours, theirs, id=title)


def arrays():
    drawn = np.random.default_rng(0)
    shapes = {"a": (2, 3), "b": (2, 3), "m": (3, 3)}
    made = {name: drawn.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    return {**made, "i": np.array([1, 0, 1])}


@pytest.mark.parametrize(("ours", "theirs"), list(rows(*ARRAYS)))
def test_a_row_means_the_same_in_pullback_and_numpy(ours, theirs):
    given = arrays()
    tensors = {name: torch.from_numpy(array.copy()) for name, array in given.items()}
    result = eval(ours, {"torch": torch, **tensors})
    wanted = eval(theirs, {"np": np, **given})
    assert np.shape(result) == np.shape(wanted)
    np.testing.assert_allclose(np.asarray(result), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("ours", "theirs"), list(rows("Random numbers")))
def test_random_numbers_have_the_shape_and_kind_of_numpys(ours, theirs):
    result = eval(ours, {"torch": torch})
    if "=" in theirs:
        return  # the seed
    wanted = eval(theirs, {"rng": np.random.default_rng(0)})
    assert np.shape(result) == np.shape(wanted)
    assert np.asarray(result).dtype.kind == wanted.dtype.kind


def test_derivatives_of_the_page_run():
    section = PAGE.partition("\n## Derivatives\n")[2].partition("\n## ")[0]
    names = {"torch": torch, "f": lambda x: (x**2).sum(), "v": torch.ones(3)}
    codes = re.findall(r"^\| [^|]+ \| `([^`]+)`", section, re.MULTILINE)
    assert len(codes) == 15
    for code in codes:
        names["x"] = torch.arange(3.0).requires_grad_("backward" in code or "autograd" in code)
        exec(code, names)
    assert torch.func.grad(names["f"])(torch.arange(3.0)).tolist() == [0, 2, 4]
