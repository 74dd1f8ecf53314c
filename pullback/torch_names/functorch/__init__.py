"""The package `functorch`, as it was before its functions moved to `torch.func`.

Found as `import functorch` where pullback stands in for torch. Every function warns that it has
moved, as torch's do.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from pullback import func
from pullback._functorch import apis  # type: ignore[import-not-found]
from pullback._functorch import make_functional as _modules
from pullback.core import origin
from pullback.fx.experimental.proxy_tensor import make_fx
from pullback.torch_version import __version__ as __version__

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "chunk_vmap",
    "combine_state_for_ensemble",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "make_functional",
    "make_functional_with_buffers",
    "make_fx",
    "vjp",
    "vmap",
]


def _moved(function: Callable[..., Any], instead: str) -> Any:
    name = function.__name__

    @functools.wraps(function)
    def warns(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"functorch.{name} is the older name; use {instead}.",
            FutureWarning,
            stacklevel=origin.stacklevel(),
        )
        return function(*args, **kwargs)

    return warns


FunctionalModule = _modules.FunctionalModule
FunctionalModuleWithBuffers = _modules.FunctionalModuleWithBuffers
chunk_vmap = apis.chunk_vmap
functionalize = _moved(func.functionalize, "torch.func.functionalize")
grad = _moved(func.grad, "torch.func.grad")
grad_and_value = _moved(func.grad_and_value, "torch.func.grad_and_value")
hessian = _moved(func.hessian, "torch.func.hessian")
jacfwd = _moved(func.jacfwd, "torch.func.jacfwd")
jacrev = _moved(func.jacrev, "torch.func.jacrev")
jvp = _moved(func.jvp, "torch.func.jvp")
vjp = _moved(func.vjp, "torch.func.vjp")
vmap = _moved(func.vmap, "torch.vmap")
make_functional = _moved(_modules.make_functional, "torch.func.functional_call")
make_functional_with_buffers = _moved(
    _modules.make_functional_with_buffers, "torch.func.functional_call"
)
combine_state_for_ensemble = _moved(
    _modules.combine_state_for_ensemble, "torch.func.stack_module_state"
)
