"""Training: utilities under torch's module names; each is loaded when first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pullback.core.explain.absent import absent
from pullback.core.listing import only_public as _only_public

# One a line, in order.
_MODULES = (
    "_contextlib",
    "_cxx_pytree",
    "_device",
    "_foreach_utils",
    "_mode_utils",
    "_python_dispatch",
    "_pytree",
    "benchmark",
    "bottleneck",
    "checkpoint",
    "collect_env",
    "cpp_extension",
    "data",
    "deterministic",
    "dlpack",
    "flop_counter",
    "hooks",
    "model_zoo",
    "module_tracker",
    "tensorboard",
    "throughput_benchmark",
    "weak",
)
# Names of torch.utils itself -> the module that has them.
_NAMES = {
    "swap_tensors": "swapping",
    "generate_methods_for_privateuse1_backend": "backend_registration",
    "rename_privateuse1_backend": "backend_registration",
    "set_module": "backend_registration",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"pullback.utils.{name}")
    if name in _NAMES:
        return getattr(import_module(f"pullback.utils.{_NAMES[name]}"), name)
    if name == "ThroughputBenchmark":
        return import_module("pullback.utils.throughput_benchmark").ThroughputBenchmark
    raise absent(__name__, name)


__all__: list[str] = sorted(_NAMES)
__dir__ = _only_public(globals(), " ".join(name for name in _MODULES if name[0] != "_"))
