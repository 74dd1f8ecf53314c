"""The von Mises distribution: a normal distribution on the circle."""

from __future__ import annotations

import math
from typing import Any

from pullback.core.size import Size
from pullback.distributions import constraints
from pullback.distributions.located import Located
from pullback.distributions.package import torch
from pullback.distributions.utils import all_true, broadcast_all, lazy_property

__all__ = ["VonMises"]


class VonMises(Located):
    """Angles between -pi and pi about `loc`, with a variance of nearly 1 / `concentration`.

    >>> import pullback as torch
    >>> torch.distributions.VonMises(torch.tensor(0.0), torch.tensor(2.0)).mean
    tensor(0.)
    """

    arg_constraints: Any = {"loc": constraints.real, "concentration": constraints.positive}
    support: Any = constraints.real
    has_rsample = False

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        # exp(concentration) overflows; i0e is without that factor.
        fall = self.concentration * (torch.cos(value - self.loc) - 1)
        return fall - math.log(2 * math.pi) - torch.special.i0e(self.concentration).log()

    @lazy_property
    def _proposal_r(self) -> Any:
        """The wrapped Cauchy distribution closest around this one (Best and Fisher, 1979)."""
        k = self.concentration.double()
        tau = 1 + (1 + 4 * k**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        r = (1 + rho**2) / (2 * rho)
        # That cancels for small concentrations; its expansion there does not.
        return torch.where(k < 1e-5, 1 / k + k, r)

    def sample(self, sample_shape: Any = Size()) -> Any:
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            k, r = self.concentration.double(), self._proposal_r
            angle = torch.zeros(shape, dtype=torch.float64, device=self.loc.device)
            found = torch.zeros(shape, dtype=torch.bool, device=self.loc.device)
            while not all_true(found):
                u = torch.rand((3, *shape), dtype=torch.float64, device=self.loc.device)
                u1, u2, u3 = u.unbind()
                z = torch.cos(math.pi * u1)
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                accepted = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
                # Also where one was found before: the last one counts, as in torch.
                angle = torch.where(accepted, (u3 - 0.5).sign() * f.acos(), angle)
                found = found | accepted
            turned = (angle + math.pi + self.loc.double()) % (2 * math.pi) - math.pi
            return turned.to(self.loc.dtype)

    @lazy_property
    def variance(self) -> Any:
        """The circular variance: one less the length of the mean direction."""
        i1e, i0e = torch.special.i1e, torch.special.i0e
        return 1 - i1e(self.concentration) / i0e(self.concentration)
