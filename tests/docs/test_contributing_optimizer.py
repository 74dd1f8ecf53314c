"""A newcomer's optimizer, added to a copy by following the steps of CONTRIBUTING.md."""

import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n## An optimizer\n")[2].partition("\n## ")[0]

# Steps 1 to 3. SIGN is - where it goes down.
FILE = '''"""Signed: steps of one length along an average of gradients, shorter near a minimum."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.operators.create.sizes import zeros_like
from pullback.optim.checks import arguments, learning_rate, not_negative
from pullback.optim.elementwise import ElementwiseOptimizer, average_in, decayed
from pullback.optim.on_lists import on_lists
from pullback.optim.optimizer import ParamsT

__all__ = ["Signed", "signed"]


def _rule(x: Any, g: Any, state: dict[str, Any], options: dict[str, Any]) -> None:
    mean = state["exp_avg"]
    average_in(mean, decayed(x, g, options), options["beta"])
    x.add_(SIGN(mean / (mean.abs() + options["eps"])).mul_(options["lr"]))


class Signed(ElementwiseOptimizer):
    """Steps of one length along a running average of gradients.

    >>> import pullback as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = torch.optim.Signed([x], lr=0.5, eps=0)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([0.5000, 1.5000], requires_grad=True)
    """

    _rule = staticmethod(_rule)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        beta: float = 0.9,
        eps: float = 0.1,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        learning_rate(lr)
        not_negative(beta=beta, eps=eps, weight_decay=weight_decay)
        names = "lr beta eps weight_decay foreach maximize differentiable capturable"
        super().__init__(params, arguments(locals(), names))

    def _new_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"exp_avg": zeros_like(p)}


signed = on_lists(
    "signed",
    _rule,
    "params grads exp_avgs",
    "foreach maximize differentiable capturable",
    "beta lr eps weight_decay",
)
'''
# Steps 3 to 5: a file, a line of it, and what stands before that then.
LINES = [
    ("pullback/optim/_functional.py", '    "sparse_adam",\n', '    "signed",\n'),
    (
        "pullback/optim/_functional.py",
        "from pullback.optim.sparse_adam import",
        "from pullback.optim.signed import signed\n",
    ),
    (
        "pullback/optim/__init__.py",
        "from pullback.optim.sparse_adam import",
        "from pullback.optim.signed import Signed\n",
    ),
    ("pullback/optim/__init__.py", '    "SparseAdam",\n', '    "Signed",\n'),
    ("tests/optim/test_algorithms.py", '    "Muon": {', '    "Signed": {"lr": 0.1},\n'),
    (
        "tests/optim/test_differentiable.py",
        '    "Rprop": {',
        '    "Signed": {"lr": 0.1, "weight_decay": 0.3, "eps": 1e-2, "beta": 0.8},\n',
    ),
]
TESTS = ["test_algorithms.py", "test_differentiable.py", "test_packing.py"]


@pytest.fixture
def copy(tmp_path):
    """A checkout, as far as the commands need it."""
    for name in ("pullback", "generate"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests/optim").mkdir(parents=True)
    for name in (
        *("pyproject.toml", "tests/conftest.py", "tests/modes.py", "docs/architecture.md"),
        *(f"tests/optim/{test}" for test in TESTS),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for path, line, entry in LINES:
        text = (tmp_path / path).read_text(encoding="utf-8")
        assert text.count(line) == 1, line
        (tmp_path / path).write_text(text.replace(line, entry + line), encoding="utf-8")
    return tmp_path


def run(copy, *words):
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=copy, capture_output=True, text=True, check=False
    )


def check(copy, sign, tests):
    made = FILE.replace("SIGN", sign)
    (copy / "pullback/optim/signed.py").write_text(made, encoding="utf-8")
    return run(copy, "pytest", *(f"tests/optim/{test}" for test in tests), "-k", "Signed")


def test_the_page_names_the_files_and_tables_of_the_steps():
    named = set(re.findall(r"`(?:pullback/|tests/)?(optim/[\w/]+\.py)`", SECTION))
    assert {path.partition("/")[2] for path, *_ in LINES} <= named
    assert all(word in SECTION for word in ("`OPTIMIZERS`", "`OPTIONS`", "`__all__`", "generate"))


def test_a_newcomers_optimizer_fails_if_it_goes_up_and_passes_if_it_goes_down(copy):
    wrong = check(copy, "+", TESTS[:1])
    assert wrong.returncode == 1, wrong.stdout + wrong.stderr
    assert "test_fifty_steps_get_near_the_minimum_or_the_maximum[Signed-False]" in wrong.stdout
    right = check(copy, "-", TESTS)
    assert right.returncode == 0, right.stdout + right.stderr
    passed = int(re.search(r"(\d+) passed", right.stdout)[1])
    assert passed >= 5, "down and up, with its derivative, packed"
    done = run(copy, "generate")
    assert done.returncode == 0, done.stderr
    program = "import doctest, pullback.optim.signed as m; print(doctest.testmod(m))"
    shown = subprocess.run(
        [sys.executable, "-c", program], cwd=copy, capture_output=True, text=True, check=True
    )
    assert shown.stdout == "TestResults(failed=0, attempted=6)\n"
