"""Training: probability distributions. Sampling, densities, divergences, transforms.

A family has a file of its own, in `continuous/`, `discrete/` or `multivariate/`; torch's paths lead
there, too: `pullback.distributions.normal` is `pullback.distributions.continuous.normal`.

>>> import pullback as torch
>>> d = torch.distributions.Normal(0.0, 1.0)
>>> d.log_prob(torch.tensor(0.0))
tensor(-0.9189)
"""

from __future__ import annotations

import sys
from importlib import import_module

from pullback.core.listing import only_public as _only_public
from pullback.distributions import constraint_registry as constraint_registry
from pullback.distributions import constraints as constraints
from pullback.distributions import kl as kl
from pullback.distributions import transforms as transforms
from pullback.distributions import utils as utils
from pullback.distributions.constraint_registry import biject_to, transform_to
from pullback.distributions.continuous.beta import Beta
from pullback.distributions.continuous.cauchy import Cauchy
from pullback.distributions.continuous.chi2 import Chi2
from pullback.distributions.continuous.continuous_bernoulli import ContinuousBernoulli
from pullback.distributions.continuous.exponential import Exponential
from pullback.distributions.continuous.fishersnedecor import FisherSnedecor
from pullback.distributions.continuous.gamma import Gamma
from pullback.distributions.continuous.generalized_pareto import GeneralizedPareto
from pullback.distributions.continuous.gumbel import Gumbel
from pullback.distributions.continuous.half_cauchy import HalfCauchy
from pullback.distributions.continuous.half_normal import HalfNormal
from pullback.distributions.continuous.inverse_gamma import InverseGamma
from pullback.distributions.continuous.kumaraswamy import Kumaraswamy
from pullback.distributions.continuous.laplace import Laplace
from pullback.distributions.continuous.log_normal import LogNormal
from pullback.distributions.continuous.normal import Normal
from pullback.distributions.continuous.pareto import Pareto
from pullback.distributions.continuous.relaxed_bernoulli import RelaxedBernoulli
from pullback.distributions.continuous.studentT import StudentT
from pullback.distributions.continuous.uniform import Uniform
from pullback.distributions.continuous.von_mises import VonMises
from pullback.distributions.continuous.weibull import Weibull
from pullback.distributions.discrete.bernoulli import Bernoulli
from pullback.distributions.discrete.binomial import Binomial
from pullback.distributions.discrete.categorical import Categorical
from pullback.distributions.discrete.geometric import Geometric
from pullback.distributions.discrete.multinomial import Multinomial
from pullback.distributions.discrete.negative_binomial import NegativeBinomial
from pullback.distributions.discrete.one_hot_categorical import (
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from pullback.distributions.discrete.poisson import Poisson
from pullback.distributions.distribution import Distribution
from pullback.distributions.exp_family import ExponentialFamily
from pullback.distributions.independent import Independent
from pullback.distributions.kl import kl_divergence, register_kl
from pullback.distributions.mixture_same_family import MixtureSameFamily
from pullback.distributions.multivariate.dirichlet import Dirichlet
from pullback.distributions.multivariate.lkj_cholesky import LKJCholesky
from pullback.distributions.multivariate.logistic_normal import LogisticNormal
from pullback.distributions.multivariate.lowrank_multivariate_normal import (
    LowRankMultivariateNormal,
)
from pullback.distributions.multivariate.multivariate_normal import MultivariateNormal
from pullback.distributions.multivariate.relaxed_categorical import RelaxedOneHotCategorical
from pullback.distributions.multivariate.wishart import Wishart
from pullback.distributions.transformed_distribution import TransformedDistribution
from pullback.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "CatTransform",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "ContinuousBernoulli",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "IndependentTransform",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "LowerCholeskyTransform",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "identity_transform",
    "kl_divergence",
    "register_kl",
    "transform_to",
]

# torch has all files in one folder; its paths lead to ours: `import pullback.distributions.normal`.
_FILES = {
    "continuous": """
        beta cauchy chi2 continuous_bernoulli exponential fishersnedecor gamma generalized_pareto
        gumbel half_cauchy half_normal inverse_gamma kumaraswamy laplace log_normal normal pareto
        relaxed_bernoulli studentT uniform von_mises weibull
    """,
    "discrete": """
        bernoulli binomial categorical geometric multinomial negative_binomial one_hot_categorical
        poisson
    """,
    "multivariate": """
        dirichlet lkj_cholesky logistic_normal lowrank_multivariate_normal multivariate_normal
        relaxed_categorical wishart
    """,
}
for _folder, _names in _FILES.items():
    for _name in _names.split():
        _module = import_module(f"{__name__}.{_folder}.{_name}")
        sys.modules[f"{__name__}.{_name}"] = globals()[_name] = _module

__dir__ = _only_public(globals(), "constraint_registry constraints kl transforms utils")
