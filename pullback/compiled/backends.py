"""Back ends by name: what makes a program of captured calls."""

from __future__ import annotations

import logging
from typing import Any

from pullback.compiled.capture.steps import live
from pullback.compiled.counting import counters
from pullback.compiled.python.program import PythonProgram
from pullback.compiler.errors import InvalidBackend
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
    calls: Any, inputs: Any, outputs: Any, constants: Any, wishes: Any = None, shared: Any = None
) -> Any:
    from pullback.compiled.llvm.machine import has_blas
    from pullback.compiled.llvm.program import LlvmProgram
    from pullback.compiled.lower.program import NeedsMemory
    from pullback.compiled.runtime.threads import count

    alive = live(calls, outputs)
    sizes = [one for call in alive for one in (*call.results, *call.inputs)]
    if not has_blas() or any(0 in one.shape for one in (*sizes, *inputs)):
        return PythonProgram(calls, inputs, outputs)
    try:
        return LlvmProgram(calls, inputs, outputs, constants, count(), wishes, shared)
    except NeedsMemory:
        return PythonProgram(calls, inputs, outputs)
    except Exception as error:
        # A mistake of ours must not stop the user's program: the other back end runs anything.
        reason = f"{type(error).__name__}: {error}"
        counters["errors"][reason] += 1
        log.warning("a program could not be machine code and runs on NumPy instead: %s", reason)
        return PythonProgram(calls, inputs, outputs)


_llvm.fuses = True  # type: ignore[attr-defined]  # computing again costs it no memory traffic

_BACKENDS: dict[str, Any] = {
    "aot_eager": _python,
    "eager": _python,
    "llvm": _llvm,
    "python": _python,
}


def _of_user(compiler: Any) -> Any:
    """A back end of the user's: a function of a graph module and example inputs."""
    from pullback.compiled.graph import GraphProgram

    def build(
        calls: Any,
        inputs: Any,
        outputs: Any,
        constants: Any,
        wishes: Any = None,
        shared: Any = None,
    ) -> Any:
        return GraphProgram(compiler, calls, inputs, outputs)

    return build


def resolve(backend: Any) -> Any:
    """The back end of a name, or a callable as it is; None: the best there is."""
    if backend is None or backend == "inductor":
        backend = "llvm" if is_available() else "python"
    if callable(backend):
        return _of_user(backend)
    if backend not in _BACKENDS:
        raise InvalidBackend(f"There is no back end {backend!r}; known are {sorted(_BACKENDS)}.")
    if backend == "llvm" and not is_available():
        raise RuntimeError(
            "The back end 'llvm' needs llvmlite (the extra pullback[compile]): "
            f"{install_command('llvmlite')}. The back end 'python' needs nothing."
        )
    return _BACKENDS[backend]


def verified(backend: Any) -> Any:
    """A back end whose programs compare themselves with eager at each call."""
    from pullback.compiled.verify import Verified

    def build(
        calls: Any,
        inputs: Any,
        outputs: Any,
        constants: Any,
        wishes: Any = None,
        shared: Any = None,
    ) -> Any:
        return Verified(
            backend(calls, inputs, outputs, constants, None, shared), calls, inputs, outputs
        )

    return build


def register_backend(function: Any, name: str | None = None) -> Any:
    """Make a back end of the user's known by its name."""
    _BACKENDS[name or function.__name__] = _of_user(function)
    return function


def list_backends() -> list[str]:
    """Names of the known back ends."""
    return sorted(_BACKENDS)
