"""The list of torch's public names is that of the torch that is installed."""

import warnings

import pytest

from pullback.checking import names
from tools import torch_names

theirs = pytest.importorskip("torch", reason="the list is compared with torch itself")
SOME = ["torch", "nn", "nn.functional", "linalg", "optim", "autograd", "func", "special", "fft"]


@pytest.mark.parametrize("module", SOME)
def test_the_list_has_the_names_of_a_module(module):
    with warnings.catch_warnings(action="ignore"):
        found = theirs if module == "torch" else torch_names._found(theirs, module)
        now = set(torch_names.public_names(found))
    # Importing more of torch makes more of its modules attributes; none goes.
    assert set(names.public()[module]) >= now
    gone = set(names.public()[module]) - now
    assert all(
        isinstance(torch_names._imported(f"{found.__name__}.{n}"), type(theirs)) for n in gone
    )


@pytest.mark.parametrize("name", ["Tensor", "nn.Module", "Generator"])
def test_the_list_has_the_members_of_a_class(name):
    assert list(names.classes()[name]) == torch_names.members(torch_names._found(theirs, name))
