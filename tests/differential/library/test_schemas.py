"""Schemas of built-in overloads are torch's, and arguments are taken under the names they have."""

import subprocess
import sys
from pathlib import Path

import pytest

import pullback
from pullback.library.builtin.schema import torchs_schemas
from tools.torch_schemas import FILE

ROOT = Path(__file__).resolve().parents[3]

torch = pytest.importorskip("torch")


def test_table_of_schemas_is_that_of_the_installed_torch():
    """In a process of its own: overloads that somebody asked for join those that are listed."""
    program = """
import pullback, torch
from tools.torch_schemas import schemas
print(*schemas(torch, pullback), sep="\\n")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert FILE.read_text().splitlines()[1:] == done.stdout.splitlines()


def test_arguments_have_torchs_names_and_order():
    for key in torchs_schemas():
        name, _, overload = key.rpartition(".")
        ours, theirs = (
            [
                (argument.name, argument.kwarg_only, argument.has_default_value())
                for argument in getattr(getattr(one.ops.aten, name), overload)._schema.arguments
            ]
            for one in (pullback, torch)
        )
        assert ours == theirs, key


@pytest.mark.parametrize("library", [pullback, torch])
def test_overloads_and_packets_take_arguments_by_torchs_names(library):
    x, aten = library.ones(2), library.ops.aten
    assert aten.add.Tensor(self=x, other=x, alpha=3).tolist() == [4, 4]
    assert aten.add(self=x, other=x).tolist() == [2, 2]
    assert aten.dropout.default(input=x, p=0.0, train=True).tolist() == [1, 1]
    assert aten.nan_to_num.default(self=x, nan=0.0).tolist() == [1, 1]
