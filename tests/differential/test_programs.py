"""The programs of tests/programs print the same on torch and on pullback, from the same seeds."""

import pytest

from tests.printed import difference, printed
from tests.programs.test_programs import PROGRAMS

pytest.importorskip("torch")

# Attention in bfloat16 rounds to three digits, and in another order.
TOLERANCES = {"transformer": 2e-2}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_program_prints_what_it_prints_on_torch(program):
    ours = printed(program, on_pullback=True)
    theirs = printed(program, on_pullback=False)
    assert difference(ours, theirs, TOLERANCES.get(program.stem, 1e-3)) is None
