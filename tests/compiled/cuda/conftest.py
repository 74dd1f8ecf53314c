"""Kernels of a device run on the host: CuPy's stand-in, with modules that a C++ compiler makes."""

import sys

import pytest

from pullback.operators.cuda import found as finding
from tests.compiled.cuda import emulated
from tests.cuda import stand_in


@pytest.fixture(scope="module", autouse=True)
def _library():
    if emulated.COMPILER is None:
        pytest.skip("needs a C++ compiler")
    before = {name: sys.modules.get(name) for name in stand_in.MODULES}
    sys.modules.update(stand_in.MODULES)
    library = finding.use(stand_in.module, stand_in.cupyx, 1)
    own = vars(stand_in.module).get("RawModule")
    stand_in.module.RawModule = emulated.RawModule
    yield library
    del stand_in.module.RawModule
    if own is not None:
        stand_in.module.RawModule = own
    finding.forget()
    for name, module in before.items():
        if module is None:
            del sys.modules[name]
        else:
            sys.modules[name] = module
