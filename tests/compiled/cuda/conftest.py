"""Kernels of compiled programs run on the host: CuPy's stand-in, with modules of CUDA C."""

import sys

import pytest

from pullback.operators.cuda import found as finding
from tests.cuda import stand_in
from tests.cuda.stand_in import kernels


class Noted(kernels.RawModule):
    """A module whose text tests can look at."""

    texts: list[str] = []  # noqa: RUF012 (shared by all)

    def __init__(self, *, code, **options):
        super().__init__(code=code, **options)
        self.texts.append(code)


@pytest.fixture(scope="module", autouse=True)
def _library():
    if not kernels.HAS_COMPILER:
        pytest.skip("needs a C++ compiler")
    before = {name: sys.modules.get(name) for name in stand_in.MODULES}
    sys.modules.update(stand_in.MODULES)
    library = finding.use(stand_in.module, stand_in.cupyx, 1)
    stand_in.module.RawModule = Noted  # now, so that eager kernels stay without
    yield library
    del stand_in.module.RawModule
    finding.forget()
    for name, module in before.items():
        if module is None:
            del sys.modules[name]
        else:
            sys.modules[name] = module


@pytest.fixture
def texts():
    """Texts of the modules that the test makes."""
    Noted.texts.clear()
    return Noted.texts
