"""The classes of results that have names, as `torch.return_types` lists them.

A class is made by the family that its operator belongs to, which is loaded when first asked for.

>>> import pullback as torch
>>> isinstance(torch.ones(2).max(0), torch.return_types.max)
True
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pullback.core.explain.absent import absent
from pullback.operators.results import RESULTS

_FAMILIES = {
    "linalg.decomposition": "geqrf linalg_cholesky_ex linalg_qr qr",
    "linalg.determinants": "linalg_slogdet slogdet",
    "reduce.histograms": "histogram histogramdd",
    "linalg.ldl": "linalg_ldl_factor linalg_ldl_factor_ex",
    "linalg.least_squares": "linalg_lstsq",
    "linalg.lu": "linalg_lu linalg_lu_factor linalg_lu_factor_ex lu_unpack",
    "reduce.order_statistics": "median mode nanmedian",
    "pointwise.exponentials": "frexp",
    "reduce.extremes": "aminmax max min",
    "reduce.scan": "cummax cummin",
    "linalg.solve": "linalg_inv_ex linalg_solve_ex",
    "reduce.sorting": "kthvalue sort topk",
    "linalg.spectral": "linalg_eig linalg_eigh linalg_svd svd",
    "linalg.triangular": "triangular_solve",
}
_FAMILY = {name: family for family, names in _FAMILIES.items() for name in names.split()}

__all__ = sorted(_FAMILY)


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name not in _FAMILY:
        raise absent(__name__, name)
    import_module(f"pullback.operators.{_FAMILY[name]}")
    return RESULTS[name]
