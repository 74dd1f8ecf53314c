"""`torch._decomp`: operators written in other operators, by overload, for whoever traces."""

from pullback._decomp import decompositions as _filled  # type: ignore[import-not-found] # noqa: F401
from pullback._decomp.tables import (  # type: ignore[import-not-found]
    core_aten_decompositions,
    decomposition_table,
    get_decompositions,
    global_decomposition_table,
    pre_autograd_decomposition_table,
    register_decomposition,
    remove_decompositions,
)

__all__ = [
    "core_aten_decompositions",
    "decomposition_table",
    "get_decompositions",
    "global_decomposition_table",
    "pre_autograd_decomposition_table",
    "register_decomposition",
    "remove_decompositions",
]
