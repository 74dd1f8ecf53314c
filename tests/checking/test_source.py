"""Names of torch are found in source, however a program imports them."""

import json

import pytest

from pullback.checking.source import read


def paths(tmp_path, text):
    file = tmp_path / "program.py"
    file.write_text(text)
    return [use.path for use in read([file]).uses]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import torch\ntorch.zeros(2)", ["zeros"]),
        ("import torch as th\nth.nn.Linear(1, 1)", ["nn.Linear"]),
        ("import torch.nn.functional as F\nF.relu(1)", ["nn.functional", "nn.functional.relu"]),
        ("from torch import nn as layers\nlayers.ReLU()", ["nn", "nn.ReLU"]),
        ("from torch.optim import Adam\nAdam", ["optim.Adam", "optim.Adam"]),
        ("from torch.fft import *\nrfft(1)", ["fft.rfft"]),
        (
            "import torch\nF = torch.nn.functional\nF.gelu(1)",
            ["nn.functional", "nn.functional.gelu"],
        ),
        ("import torch\ntorch.cuda.amp.autocast", ["cuda.amp.autocast"]),
        ("import torch\ngetattr(torch, 'zeros')", ["zeros"]),
        ("import torch\ntorch.ones(2).addmm_()", ["Tensor.addmm_", "ones"]),
        ("import torch\nclass A:\n  def f(self): self.addmm_()", []),
        ("import torch as nn\nfrom flax import linen as nn\nnn.Dense(1)", []),
        ("import torch\n'a'.split()\nx = []\nx.sort()", []),  # methods that others have too
    ],
)
def test_uses(tmp_path, text, found):
    assert paths(tmp_path, text) == found


@pytest.mark.parametrize(
    "text",
    [
        "try:\n  import torch.onnx\nexcept ImportError: pass",
        "import torch\nif torch.cuda.is_available():\n  torch.cuda.nothing",
        "import torch\nif hasattr(torch, 'nothing'):\n  torch.nothing",
        "import torch\ngetattr(torch, 'nothing', None)",
    ],
)
def test_what_is_tried_first_is_optional(tmp_path, text):
    file = tmp_path / "program.py"
    file.write_text(text)
    asked = [use for use in read([file]).uses if "is_available" not in use.path]
    assert asked
    assert all(use.optional for use in asked)


def test_modules_beside_a_script_are_read_and_packages_are_named(tmp_path):
    (tmp_path / "layers.py").write_text("import torch\ntorch.relu")
    (tmp_path / "script.py").write_text("import os, layers, einops\nfrom . import layers")
    program = read([tmp_path / "script.py"])
    assert [file.name for file in program.files] == ["script.py", "layers.py"]
    assert program.packages == {"einops"}
    assert [use.path for use in program.uses] == ["relu"]


def test_cells_of_a_notebook_are_one_program(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["# torch.nothing"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "import torch"]},
        {"cell_type": "code", "source": ["torch.relu"]},
    ]
    file = tmp_path / "page.ipynb"
    file.write_text(json.dumps({"cells": cells}))
    assert [use.path for use in read([file]).uses] == ["relu"]


def test_a_file_that_is_no_python_is_said_to_be_unread(tmp_path):
    file = tmp_path / "program.py"
    file.write_text("def (")
    assert len(read([file]).unread) == 1
