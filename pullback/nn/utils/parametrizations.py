"""Ready-made parametrizations: orthogonal matrices, spectral norm, weight norm."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from pullback import linalg
from pullback.autograd.grad_mode import no_grad
from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.nn.modules.module import Module
from pullback.nn.utils.parametrize import register_parametrization
from pullback.nn.utils.spectral_norm import as_matrix, of_length_one, outputs_dim
from pullback.nn.utils.weight_norm import normalised
from pullback.operators.create.sizes import eye, zeros_like
from pullback.operators.linalg.distance import norm_except_dim
from pullback.operators.shape.joining import cat

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


# Orthogonal matrices ------------------------------------------------------------------------------


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


def _is_orthogonal(q: Any, eps: float | None = None) -> bool:
    rows, columns = q.shape[-2:]
    if rows < columns:
        return False
    finest = {4: 2**-23, 8: 2**-52}.get(q.real.element_size(), 2**-10)
    bound = 10 * rows * finest if eps is None else eps
    unit = eye(columns, dtype=q.dtype, device=q.device)
    return bool((q.mH @ q - unit).abs().max() < bound)


def _make_orthogonal(a: Any) -> Any:
    """The orthogonal factor of a matrix, with signs so that an orthogonal matrix is its own."""
    factors, tau = a.geqrf()
    q = linalg.householder_product(factors, tau)
    return q * factors.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """A matrix from a skew one by a map onto orthogonal ones, or by Householder reflections.

    With `base`, the map starts there: what is trained is a step from it.
    """

    base: Tensor

    def __init__(
        self, weight: Tensor, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True
    ) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map is _OrthMaps.householder:
            raise ValueError("orthogonal: householder is for real matrices only.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Any) -> Any:  # noqa: N803 (the mathematics has a matrix)
        """The orthogonal matrix."""
        wide = X.shape[-2] < X.shape[-1]
        tall = X.mT if wide else X
        if self.orthogonal_map is _OrthMaps.householder:
            q = self._reflected(tall)
        else:
            q = self._from_skew(tall)
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if wide else q

    def _reflected(self, x: Any) -> Any:
        below = x.tril(-1)
        tau = 2.0 / (1.0 + (below * below.conj()).sum(-2))
        q = linalg.householder_product(below, tau)
        # The diagonal has the signs of the columns: whole numbers, that no gradient goes to.
        return q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)

    def _from_skew(self, x: Any) -> Any:
        rows, columns = x.shape[-2:]
        lower = x.tril()
        if rows != columns:
            rest = x.new_zeros((*x.shape[:-2], rows, rows - columns))
            lower = cat([lower, rest], -1)
        skew = lower - lower.mH
        if self.orthogonal_map is _OrthMaps.matrix_exp:
            q = linalg.matrix_exp(skew)
        else:
            unit = eye(rows, dtype=skew.dtype, device=skew.device)
            q = linalg.solve(unit - 0.5 * skew, unit + 0.5 * skew)
        return q[..., :columns]

    def right_inverse(self, Q: Any) -> Any:  # noqa: N803 (torch's name)
        """What gives this matrix, which must be (nearly) orthogonal."""
        if Q.shape != self.shape:
            raise ValueError(
                f"orthogonal: a matrix of shape {tuple(self.shape)} is needed, got "
                f"{tuple(Q.shape)}."
            )
        with no_grad():
            wide = Q.shape[-2] < Q.shape[-1]
            tall = Q.mT if wide else Q
            if hasattr(self, "base"):
                self.base = self._completed(tall)
                # Minus one is where all maps give the identity: a step of zero from the base.
                start = zeros_like(Q)
                start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
                return start
            if self.orthogonal_map is not _OrthMaps.householder:
                raise NotImplementedError(
                    "orthogonal: without use_trivialization nothing can be assigned to "
                    f"{self.orthogonal_map.name}."
                )
            factors, tau = tall.geqrf()
            signs = factors.diagonal(dim1=-2, dim2=-1)
            signs.sign_()
            signs.masked_fill_(tau == 0, -1)
            return factors.mT if wide else factors

    def _completed(self, q: Any) -> Any:
        """A square orthogonal matrix whose first columns are these."""
        rows, columns = q.shape[-2:]
        if rows == columns:
            return q.clone() if _is_orthogonal(q) else _make_orthogonal(q)
        more = q.new_empty((*q.shape[:-2], rows, rows - columns)).normal_()
        return _make_orthogonal(cat([q, more], -1))


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a weight orthogonal (or its columns or rows orthonormal, if it is not square).

    `orthogonal_map` is "matrix_exp", "cayley" or "householder"; unless told, the first for square
    and complex weights, the last for others.

    >>> import pullback as torch
    >>> layer = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(3, 5))
    >>> torch.allclose(layer.weight.mT @ layer.weight, torch.eye(3), atol=1e-5)
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(
            f"orthogonal: {type(module).__name__} has no parameter or buffer {name!r}."
        )
    if weight.ndim < 2:
        raise ValueError(f"orthogonal: a matrix is needed, {name!r} has {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    known = _OrthMaps.__members__.get(orthogonal_map)
    if known is None:
        raise ValueError(
            f"orthogonal: orthogonal_map must be one of {list(_OrthMaps.__members__)}, got "
            f"{orthogonal_map!r}."
        )
    made = _Orthogonal(weight, known, use_trivialization=use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)


# Norms --------------------------------------------------------------------------------------------


class _WeightNorm(Module):
    """A weight from its length and its direction."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """The direction, with that length."""
        return normalised(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Length and direction."""
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Train the direction and the length of a weight apart; lengths along `dim`, None: one.

    >>> import pullback as torch
    >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 2))
    >>> layer.parametrizations.weight.original0.shape
    torch.Size([2, 1])
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def take_old_names(
        state_dict: Any, prefix: str, *rest: Any
    ) -> None:  # states of nn.utils.weight_norm
        for number, end in enumerate(("_g", "_v")):
            old = f"{prefix}{name}{end}"
            if f"{prefix}{name}_g" in state_dict or old in state_dict:
                new = f"{prefix}parametrizations.{name}.original{number}"
                state_dict[new] = state_dict.pop(old)

    module._register_load_state_dict_pre_hook(take_old_names)
    return module


class _SpectralNorm(Module):
    """A weight, divided by its largest singular value, whose vectors are found on the way."""

    _u: Tensor
    _v: Tensor

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(f"spectral_norm: dim {dim} is not within {weight.ndim} dimensions.")
        if n_power_iterations <= 0:
            raise ValueError(
                f"spectral_norm: n_power_iterations must be positive, got {n_power_iterations}."
            )
        self.dim = dim % weight.ndim
        self.eps = eps
        if weight.ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight, self.dim)
            rows, columns = matrix.shape
            u = matrix.new_empty(rows).normal_(0, 1)
            v = matrix.new_empty(columns).normal_(0, 1)
            self.register_buffer("_u", of_length_one(u, eps))
            self.register_buffer("_v", of_length_one(v, eps))
            self._power_method(matrix, 15)

    def _power_method(self, weight_mat: Any, n_power_iterations: int) -> None:
        with no_grad():
            for _ in range(n_power_iterations):
                self._u.copy_(of_length_one(weight_mat.mv(self._v), self.eps))
                self._v.copy_(of_length_one(weight_mat.mH.mv(self._u), self.eps))

    def forward(self, weight: Any) -> Any:
        """The divided weight; in training, the vectors are improved before."""
        if weight.ndim == 1:
            return of_length_one(weight, self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # Copies, so that two calls before one backward do not write what the first one saved.
        u, v = self._u.clone(), self._v.clone()
        return weight / u.vdot(matrix.mv(v))

    def right_inverse(self, value: Tensor) -> Tensor:
        """The value itself, of which only the direction counts."""
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value.

    >>> import pullback as torch
    >>> layer = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(20, 40))
    >>> abs(torch.linalg.matrix_norm(layer.weight, 2).item() - 1) < 0.1
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(
            f"spectral_norm: {type(module).__name__} has no parameter or buffer {name!r}."
        )
    along = outputs_dim(module) if dim is None else dim
    made = _SpectralNorm(weight.detach(), n_power_iterations, along, eps)
    return register_parametrization(module, name, made)


__dir__ = _only_public(globals())
