"""The stand-in's `cupyx`: what CuPy has beside NumPy's names."""

from __future__ import annotations

import types
from typing import Any

import numpy

from tests.cuda.stand_in import _function, made, module, ufunc

__all__ = ["MODULES", "cupyx"]

_SPECIAL = """
    beta betainc betaln digamma entr erf erfc erfcinv erfcx erfinv exp1 expi expit expm1 expn gamma
    gammainc gammaincc gammaln i0 i0e i1 i1e j0 j1 k0 k0e k1 k1e log_ndtr loggamma logit ndtr
    ndtri polygamma psi rgamma sinc spherical_yn xlog1py xlogy y0 y1 zeta
"""
SPECIAL = frozenset(_SPECIAL.split())


class _Special(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        import scipy.special

        if name not in SPECIAL:
            raise AttributeError(f"module 'cupyx.scipy.special' has no attribute {name!r}")
        found = getattr(scipy.special, name)
        return ufunc(found) if isinstance(found, numpy.ufunc) else _function(found)


def _scatter(name):
    def scatter(a, slices, value):
        getattr(module, name).at(a, slices, value)

    return scatter


def _lu_factor(a, overwrite_a=False, check_finite=True):
    import scipy.linalg

    lu, pivots = scipy.linalg.lu_factor(a._a)
    return made(lu), made(pivots)


special = _Special("cupyx.scipy.special")
cupyx = types.SimpleNamespace(
    scatter_add=_scatter("add"),
    scatter_max=_scatter("maximum"),
    scatter_min=_scatter("minimum"),
    rsqrt=lambda x: made(1 / numpy.sqrt(x._a)),
    scipy=types.SimpleNamespace(
        special=special, linalg=types.SimpleNamespace(lu_factor=_lu_factor)
    ),
)

MODULES: Any = {
    "cupyx": cupyx,
    "cupyx.scipy": cupyx.scipy,
    "cupyx.scipy.linalg": cupyx.scipy.linalg,
    "cupyx.scipy.special": special,
}
