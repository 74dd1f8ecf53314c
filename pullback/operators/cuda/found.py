"""Whether CuPy and a device are there: looked for once, when a program first asks for one."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from typing import Any

from pullback.core import arrays
from pullback.core.device import HOLDERS, Holder
from pullback.core.ports import ports
from pullback.core.process.first_use import first_use
from pullback.installed import install_command

__all__ = ["forget", "found", "use"]


class _Found:
    """The answer, and why it is no."""

    def __init__(self) -> None:
        self.asked = False
        self.reason = "nobody has looked for a device yet"
        self.cupy: Any = None
        self.library: Any = None

    def __call__(self) -> bool:
        """Whether arrays can be made on a CUDA device."""
        if not self.asked:
            with first_use:
                if not self.asked:
                    self._look()
        return self.cupy is not None

    def _look(self) -> None:
        self.asked = True
        if importlib.util.find_spec("cupy") is None:
            self.reason = f"CuPy is not installed: {install_command('cupy-cuda13x')}"
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of CuPy's own modules among each other
                cupy = importlib.import_module("cupy")
                cupyx = importlib.import_module("cupyx")
                importlib.import_module("cupyx.scipy.special")
            count = int(cupy.cuda.runtime.getDeviceCount())
        except Exception as error:  # a driver that is missing or too old shows in many ways
            self.reason = f"CuPy found no device: {error}"
            return
        if not count:
            self.reason = "CuPy found no device"
            return
        use(cupy, cupyx, count)


found = _Found()


def use(cupy: Any, cupyx: Any, count: int) -> Any:
    """Take an array library for the devices of type "cuda"."""
    from pullback.operators.cuda.library import CudaLibrary
    from pullback.operators.writing.build import rewrite

    with first_use:
        library = CudaLibrary(cupy, cupyx, count)
        found.asked, found.cupy, found.library = True, cupy, library
        xp: Any = library.xp  # a namespace that is no module
        arrays.NAMESPACES[cupy.ndarray] = xp
        arrays.LIBRARIES[cupy.ndarray] = library
        HOLDERS["cuda"] = Holder(devices=count, is_accelerator=True)
        rewrite()  # fast paths take NumPy's arrays for granted until now
    if count > 1:
        ports.watch_streams()
    return library


def forget() -> None:
    """Let no array library hold tensors of type "cuda" any more: for tests."""
    from pullback.operators.writing.build import rewrite

    with first_use:
        found.library.pool.close()
        ndarray = found.cupy.ndarray
        del arrays.NAMESPACES[ndarray], arrays.LIBRARIES[ndarray], HOLDERS["cuda"]
        found.asked, found.cupy, found.library = False, None, None
        rewrite()


def current() -> int:
    """The number of the device that "cuda" alone means."""
    return 0 if found.cupy is None else int(found.cupy.cuda.Device().id)


ports.fill(find_cuda=found, current_cuda=current)
