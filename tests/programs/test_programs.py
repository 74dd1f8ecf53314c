"""Twenty programs written for torch run on pullback, and what they train learns."""

import re
from pathlib import Path

import pytest

from tests.printed import difference, printed

PROGRAMS = sorted(
    path for path in Path(__file__).parent.glob("*.py") if not path.name.startswith("test_")
)


def test_there_are_twenty_programs():
    assert len(PROGRAMS) == 20


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_program_runs_and_its_loss_falls(program):
    losses = [float(one) for one in re.findall(r"loss (\S+)", printed(program, on_pullback=True))]
    assert len(losses) >= 4
    assert losses[-1] < 0.95 * losses[0]


def test_texts_differ_by_words_and_numbers_and_lengths():
    assert difference("loss 0.12345", "loss 0.12346") is None
    assert difference("step 3 loss 1e-05", "step 3 loss 1e-05") is None
    assert difference("inf nan -1.5e+03", "inf nan -1.5e+03") is None
    assert difference("loss 0.123", "gain 0.123")
    assert difference("loss 0.123", "loss 0.125")
    assert difference("step 3", "step 4")
    assert difference("loss nan", "loss 0.1")
    assert difference("a\nb", "a")
