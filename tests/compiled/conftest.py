"""Back ends that are there, and programs whose object code stays in a folder of the test run."""

import pytest

import pullback as torch
from pullback.compiled.counting import counters
from pullback.compiled.llvm.machine import is_available

BACKENDS = ["python", *(["llvm"] if is_available() else [])]


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


@pytest.fixture
def compiled(backend):
    return lambda function, **options: torch.compile(function, backend=backend, **options)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.getbasetemp() / "object-code"
    monkeypatch.setenv("PULLBACK_CACHE", str(folder))


@pytest.fixture(autouse=True)
def _no_errors_inside():
    """A program that could not be compiled would run on NumPy, and hide a mistake of ours."""
    counters["errors"].clear()
    yield
    assert not counters["errors"]
