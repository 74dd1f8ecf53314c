"""The programs of docs/gpu.md run as they are printed."""

import re
from pathlib import Path

import pytest

import pullback as torch
from tests.cuda.conftest import needs_device

PAGE = Path(__file__).parents[2] / "docs" / "gpu.md"


@needs_device
@pytest.mark.usefixtures("device")
def test_the_page_runs_from_top_to_bottom():
    names = {}
    try:
        for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S):
            exec(compile(block, PAGE.name, "exec"), names)
        assert names["model"][0].weight.grad.is_cuda
    finally:
        torch.cuda.streams._end()
