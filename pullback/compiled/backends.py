"""Back ends by name: what makes a program of captured calls."""

from __future__ import annotations

import logging
from typing import Any

from pullback.compiled.capture.steps import live
from pullback.compiled.counting import counters
from pullback.compiled.errors import InvalidBackend
from pullback.compiled.python.program import PythonProgram
from pullback.installed import install_command

log = logging.getLogger("pullback.compile")

__all__ = ["list_backends", "register_backend", "resolve"]


def _python(
    calls: Any, inputs: Any, outputs: Any, constants: Any, wishes: Any = None, shared: Any = None
) -> Any:
    return PythonProgram(calls, inputs, outputs)


def is_available() -> bool:
    """Whether programs can be machine code here."""
    from pullback.compiled.llvm.machine import is_available as has_llvm

    return has_llvm()


def _llvm(
    calls: Any, inputs: Any, outputs: Any, constants: Any, wishes: Any = None, shared: Any = None,
    ahead: Any = None,
) -> Any:  # fmt: skip
    from pullback.compiled.llvm.machine import has_blas
    from pullback.compiled.llvm.program import LlvmProgram
    from pullback.compiled.lower.kernels import NeedsMemory
    from pullback.compiled.runtime.threads import count

    alive = live(calls, outputs)
    sizes = [one for call in alive for one in (*call.results, *call.inputs)]
    if not has_blas() or any(0 in one.shape for one in (*sizes, *inputs)):
        return PythonProgram(calls, inputs, outputs)
    try:
        return LlvmProgram(calls, inputs, outputs, constants, count(), wishes, shared, ahead)
    except NeedsMemory:
        return PythonProgram(calls, inputs, outputs)
    except Exception as error:
        _say_failed(error)
        return PythonProgram(calls, inputs, outputs)


def _best(
    calls: Any, inputs: Any, outputs: Any, constants: Any, wishes: Any = None, shared: Any = None,
    ahead: Any = None,
) -> Any:  # fmt: skip
    """What is used where nobody names a back end: machine code where there is some."""
    if is_available():
        return _llvm(calls, inputs, outputs, constants, wishes, shared, ahead)
    return _python(calls, inputs, outputs, constants, wishes, shared)


def _cudagraphs(
    calls: Any, inputs: Any, outputs: Any, constants: Any, wishes: Any = None, shared: Any = None
) -> Any:
    """Of tensors on the host: there is nothing to replay."""
    return _best(calls, inputs, outputs, constants, wishes, shared)


def is_default(backend: Any) -> bool:
    """Whether it is what is used where nobody names a back end."""
    return backend is _best


def is_exact(backend: Any) -> bool:
    """Whether a back end's programs are eager's kernels, and must give eager's bits."""
    inner = getattr(backend, "verified", backend)
    return inner is _python or getattr(inner, "exact", False)


_llvm.fuses = True  # type: ignore[attr-defined]  # computing again costs it no memory traffic
# Whether a program of forward and backward is told where the one ends.
_llvm.cuts = _best.cuts = True  # type: ignore[attr-defined]  # as above


def for_library(backend: Any, library: Any) -> Any:
    """The same back end for arrays of a device."""
    inner = getattr(backend, "verified", None)
    if inner is not None:
        return verified(for_library(inner, library), library)
    if backend is _cudagraphs:
        return _graphed(library)
    if backend not in (_best, _llvm, _python):
        return backend  # a compiler of the user's takes tensors of any kind

    def build(
        calls: Any, inputs: Any, outputs: Any, constants: Any, wishes: Any = None, *shared: Any
    ) -> Any:
        from pullback.compiled.cuda.program import CudaProgram
        from pullback.compiled.lower.kernels import NeedsMemory

        sizes = [one for call in live(calls, outputs) for one in (*call.results, *call.inputs)]
        if backend is _python or any(0 in one.shape for one in (*sizes, *inputs)):
            return PythonProgram(calls, inputs, outputs, library)
        try:
            return CudaProgram(calls, inputs, outputs, constants, library, wishes)
        except NeedsMemory:
            return PythonProgram(calls, inputs, outputs, library)
        except Exception as error:
            _say_failed(error)
            return PythonProgram(calls, inputs, outputs, library)

    build.fuses = backend is not _python  # type: ignore[attr-defined]  # as the others'
    build.exact = backend is _python  # type: ignore[attr-defined]  # the same
    return build


def _graphed(library: Any) -> Any:
    """Programs of a device that are replayed as CUDA graphs."""
    inner = for_library(_best, library)

    def build(calls: Any, inputs: Any, outputs: Any, constants: Any, *_: Any) -> Any:
        from pullback.compiled.cuda.graphed import GraphedProgram

        # Without wishes: what it writes to must not be a copy of the caller's tensor.
        return GraphedProgram(inner(calls, inputs, outputs, constants), library)

    build.fuses = True  # type: ignore[attr-defined]  # as the others'
    return build


def _say_failed(error: Exception) -> None:
    """A mistake of ours must not stop the user's program: the other back end runs anything."""
    reason = f"{type(error).__name__}: {error}"
    counters["errors"][reason] += 1
    log.warning("a program could not be compiled and runs call by call instead: %s", reason)


_BACKENDS: dict[str, Any] = {
    "aot_eager": _python,
    "cuda": _best,
    "cudagraphs": _cudagraphs,
    "eager": _python,
    "llvm": _llvm,
    "python": _python,
}


def _of_user(compiler: Any) -> Any:
    """A back end of the user's: a function of a graph module and example inputs."""
    from pullback.compiled.graph import GraphProgram

    def build(calls: Any, inputs: Any, outputs: Any, *constants_and_wishes: Any) -> Any:
        return GraphProgram(compiler, calls, inputs, outputs)

    return build


class _Default:
    """The back end where none is named; the best there is goes by torch's name."""

    __slots__ = ("backend",)

    def __init__(self) -> None:
        self.backend: Any = "inductor"


default = _Default()


def resolve(backend: Any) -> Any:
    """The back end of a name, or a callable as it is; None: the one that is set, or the best."""
    if backend is None:
        backend = default.backend
    if backend == "inductor":
        _best.fuses = is_available()  # type: ignore[attr-defined]  # as the one that it takes
        return _best
    if callable(backend):
        return _of_user(backend)
    if backend not in _BACKENDS:
        raise InvalidBackend(f"There is no back end {backend!r}; known are {sorted(_BACKENDS)}.")
    if backend == "llvm" and not is_available():
        raise RuntimeError(
            "The back end 'llvm' needs llvmlite (the extra pullback[compile]): "
            f"{install_command('llvmlite')}. The back end 'python' needs nothing."
        )
    if backend in ("cuda", "cudagraphs"):
        from pullback.operators.cuda.found import found

        if not found():
            raise RuntimeError(f"The back end {backend!r} has no device: {found.reason}.")
    return _BACKENDS[backend]


def verified(backend: Any, library: Any = None) -> Any:
    """A back end whose programs compare themselves with eager at each call."""
    from pullback.compiled.verify import Verified

    def build(
        calls: Any, inputs: Any, outputs: Any, constants: Any, _: Any = None, *shared: Any
    ) -> Any:
        return Verified(
            backend(calls, inputs, outputs, constants, None, *shared),
            *(calls, inputs, outputs, library),
        )

    build.verified = backend  # type: ignore[attr-defined]  # for another device's form of it
    return build


def register_backend(function: Any, name: str | None = None) -> Any:
    """Make a back end of the user's known by its name."""
    _BACKENDS[name or function.__name__] = _of_user(function)
    return function


def list_backends() -> list[str]:
    """Names of the known back ends."""
    return sorted(_BACKENDS)
