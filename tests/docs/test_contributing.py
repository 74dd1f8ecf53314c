"""A newcomer's first two operators, added to a copy by following CONTRIBUTING.md to the letter."""

import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## An operator in ten minutes")[2].partition("\n## ")[0]
COMMANDS = re.findall(r"```sh\n(.*?)\n```", SECTION, re.DOTALL)

# Step 1: the declarations. FACTOR is 2.0 where the gradient is right.
BELL = '''

@elementwise(input=lambda g, input, out: g * conj(out * input * -FACTOR), promote="float")
def gaussian_bell(xp: Namespace, input: Array) -> Array:
    """e to the power of minus the square of each element."""
    return xp.exp(-xp.square(input))
'''
ENERGY = '''

@primitive(
    input=lambda g, input, input_shape, dim, keepdim: (
        unreduce(g, input_shape, dim, keepdim) * conj(input) * FACTOR
    ),
    jvp=lambda d_input, input, dim, keepdim: sum(d_input * input, dim, keepdim) * 2.0,
    promote="float",
)
def total_energy(xp: Namespace, input: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    """The sum of the squares of the elements, or over the dimensions `dim`."""
    return total(xp, xp.square(input), dim, keepdim)
'''
FAMILIES = {
    "pullback/operators/pointwise/exponentials.py": BELL,
    "pullback/operators/reduce/sums.py": ENERGY,
}
# Step 2: the samples, each a line of a table.
SAMPLES = {
    "pullback/testing/samples_pointwise.py": ('    "log1p": ', '    "gaussian_bell": unary(),\n'),
    "pullback/testing/samples_reduction.py": (
        '    "logsumexp": ',
        '    "total_energy": over_dims(single, empty),\n',
    ),
}


@pytest.fixture
def copy(tmp_path):
    """A checkout, as far as the commands need it."""
    for name in ("pullback", "generate"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (
        *("pyproject.toml", "Makefile", "tests/conftest.py", "tests/modes.py"),
        "docs/architecture.md",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "tests/operators").mkdir()
    shutil.copy(ROOT / "tests/operators/test_all_operators.py", tmp_path / "tests/operators")
    for path, (line, entry) in SAMPLES.items():
        text = (tmp_path / path).read_text(encoding="utf-8")
        assert text.count(line) == 1
        (tmp_path / path).write_text(text.replace(line, entry + line), encoding="utf-8")
    return tmp_path


def declare(copy, factor):
    for path, declaration in FAMILIES.items():
        text = (ROOT / path).read_text(encoding="utf-8") + declaration.replace("FACTOR", factor)
        (copy / path).write_text(text, encoding="utf-8")


def run(copy, command, **names):
    """A command of the page, in the copy and with the Python that runs this."""
    for name, value in names.items():
        command = command.replace(name, value)
    if command == "make generate":
        (recipe,) = re.findall(
            r"^generate:.*\n\t\$\(BIN\)/(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE
        )
        command = recipe
    words = shlex.split(command.replace(".venv/bin/pytest", "python -m pytest"))
    assert words[0] == "python"
    return subprocess.run(
        [sys.executable, *words[1:]], cwd=copy, capture_output=True, text=True, check=False
    )


def test_the_page_names_the_commands_in_order():
    assert COMMANDS == [
        "make generate",
        ".venv/bin/pytest tests/operators/test_all_operators.py -k mul",
    ]


def test_a_newcomers_operators_fail_with_a_wrong_gradient_and_pass_with_the_right_one(copy):
    generate, check = COMMANDS
    declare(copy, "3.0")
    done = run(copy, generate)
    assert done.returncode == 0, done.stderr
    assert "def gaussian_bell(input: _Tensor" in (copy / "pullback/__init__.pyi").read_text()
    wrong = run(copy, check, mul="'gaussian_bell or total_energy'")
    assert wrong.returncode == 1, wrong.stdout + wrong.stderr
    for name in ("gaussian_bell", "total_energy"):
        assert f"first_derivatives_agree_with_finite_differences[{name}-float64]" in wrong.stdout
    declare(copy, "2.0")
    assert "wrote" not in run(copy, generate).stdout  # only the derivative has changed
    right = run(copy, check, mul="'gaussian_bell or total_energy'")
    assert right.returncode == 0, right.stdout + right.stderr
    assert " passed" in right.stdout
