"""The version of torch's interface compares as versions do."""

import importlib.metadata
import itertools

import pytest

import pullback as torch
from pullback.torch_version import TorchVersion


def test_the_interface_is_torchs():
    assert isinstance(torch.__version__, str)
    assert str(torch.__version__) == torch.version.__version__ == "2.13.0+pullback"
    assert torch.__version__ > (2, 0)
    assert torch.__version__ < "2.14"
    assert torch.__version__ >= "2.13.0a0"
    assert torch.__version__ > "2.9"
    assert torch.__version__ != (2, 13)
    assert torch.__version__ != "no version"
    assert hash(torch.__version__) == hash("2.13.0+pullback")
    assert torch.__version__.split("+")[0] == "2.13.0"
    with pytest.raises(TypeError):
        torch.__version__ < 5


def test_versions_are_ordered():
    spelled = [
        *("1.0.dev3", "1.0a1.dev2", "1.0a1", "1.0b2", "1.0rc1", "1.0", "1.0+cpu", "1.0+cpu.2"),
        *("1.0.post1.dev1", "1.0.post1", "1.0.1", "1.2", "1.10", "2.0.0", "1!0.1"),
    ]
    for first, second in itertools.pairwise(spelled):
        assert TorchVersion(first) < second
        assert TorchVersion(second) >= first
    assert TorchVersion("1.0") == "1.0.0"
    assert TorchVersion("1.0") == (1, 0, 0)


def test_our_own_version_is_the_packages():
    assert torch.__pullback_version__ == importlib.metadata.version("pullback")


def test_what_it_is_built_with():
    assert (torch.version.cuda, torch.version.hip, torch.version.debug) == (None, None, False)
    assert "NumPy" in torch.__config__.show()
    assert "threads" in torch.__config__.parallel_info()
    assert torch.compiled_with_cxx11_abi()
    assert torch.get_file_path("pullback", "py.typed").endswith("py.typed")
