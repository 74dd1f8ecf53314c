"""Instances of every family, for torch and for pullback alike.

A case is a name, a function of (the module `distributions`, its parameters as tensors), parameters
as arrays, and values of the support.
"""

from typing import Any, NamedTuple

import numpy

A = numpy.array


class Family(NamedTuple):
    name: str
    make: Any
    params: tuple[Any, ...]
    value: Any
    discrete: bool = False


def family(name, params, value, make=None, *, discrete=False):
    kind = name.split()[0]
    make = make or (lambda d, *p: getattr(d, kind)(*p))
    arrays = tuple(A(p, dtype=numpy.float64) for p in params)
    return Family(name, make, arrays, A(value, dtype=numpy.float64), discrete)


LOC, SCALE = [0.3, -1.2], [0.7, 2.1]
ONE, TWO = [0.6, 2.5], [1.7, 0.4]
P = [0.3, 0.75]
ROWS = [[0.2, 0.5, 0.3], [0.7, 0.1, 0.2]]
TRIL = [[1.2, 0.0, 0.0], [0.4, 0.8, 0.0], [-0.3, 0.5, 1.5]]
COVARIANCE = (A(TRIL) @ A(TRIL).T).tolist()
FACTOR = [[0.5, 1.0], [-0.3, 0.2], [0.9, -0.4]]
SHARES = [[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]]

CONTINUOUS = [
    family("Beta", (ONE, TWO), [0.3, 0.8]),
    family("Cauchy", (LOC, SCALE), [0.5, -3.0]),
    family("Chi2", ([1.5, 7.0],), [0.8, 5.0]),
    family("ContinuousBernoulli", ([0.3, 0.5002],), [0.2, 0.9]),
    family(
        "ContinuousBernoulli logits",
        ([0.4, -1.3],),
        [0.2, 0.9],
        lambda d, p: d.ContinuousBernoulli(logits=p),
    ),
    family("Exponential", (ONE,), [0.5, 1.2]),
    family("FisherSnedecor", ([3.0, 7.0], [5.0, 6.5]), [0.5, 2.0]),
    family("Gamma", (ONE, TWO), [0.5, 3.0]),
    family("GeneralizedPareto", (LOC, SCALE, [0.3, -0.2]), [0.9, 0.5]),
    family("GeneralizedPareto exponential", (LOC, SCALE, [0.0, 0.0]), [0.9, 0.5]),
    family("Gumbel", (LOC, SCALE), [0.5, -3.0]),
    family("HalfCauchy", (SCALE,), [0.5, 3.0]),
    family("HalfNormal", (SCALE,), [0.5, 3.0]),
    family("InverseGamma", ([2.5, 3.5], TWO), [0.5, 3.0]),
    family("Kumaraswamy", ([1.5, 2.5], [0.8, 3.0]), [0.3, 0.8]),
    family("Laplace", (LOC, SCALE), [0.5, -3.0]),
    family("LogNormal", (LOC, [0.7, 0.4]), [0.5, 3.0]),
    family(
        "LogitRelaxedBernoulli",
        ([0.7], P),
        [0.5, -1.0],
        lambda d, t, p: d.relaxed_bernoulli.LogitRelaxedBernoulli(t, p),
    ),
    family("Normal", (LOC, SCALE), [0.5, -3.0]),
    family("Pareto", (SCALE, [2.5, 3.0]), [0.9, 4.0]),
    family("RelaxedBernoulli", ([0.7], P), [0.4, 0.9]),
    family(
        "RelaxedBernoulli logits",
        ([0.7], LOC),
        [0.4, 0.9],
        lambda d, t, p: d.RelaxedBernoulli(t, logits=p),
    ),
    family("StudentT", ([3.0, 5.5], LOC, SCALE), [0.5, -3.0]),
    family("Uniform", (LOC, [1.1, 2.0]), [0.5, 1.0]),
    family("VonMises", (LOC, [0.7, 12.0]), [0.5, -2.0]),
    family("Weibull", (SCALE, [1.5, 2.5]), [0.5, 3.0]),
    family(
        "MixtureSameFamily",
        (SHARES[0], [0.0, 1.0, -2.0], [1.0, 0.5, 0.8]),
        [0.4, -1.0],
        lambda d, p, loc, scale: d.MixtureSameFamily(d.Categorical(p), d.Normal(loc, scale)),
    ),
    family(
        "TransformedDistribution",
        (LOC, SCALE),
        [-0.3, -2.0],
        lambda d, loc, scale: d.TransformedDistribution(
            d.Normal(loc, scale), [d.ExpTransform(), d.AffineTransform(0.5, -1.5)]
        ),
    ),
]

VECTORS = [
    family("Dirichlet", (ROWS,), SHARES),
    family("Independent", (LOC, SCALE), [0.5, -3.0], lambda d, *p: d.Independent(d.Normal(*p), 1)),
    family("LKJCholesky", ([0.7, 2.0],), TRIL, lambda d, c: d.LKJCholesky(3, c)),
    family("LogisticNormal", (LOC, SCALE), [0.2, 0.5, 0.3]),
    family("LowRankMultivariateNormal", ([0.1, 0.2, 0.3], FACTOR, ROWS), ROWS),
    family("MultivariateNormal", (ROWS, COVARIANCE), [[0.5, -0.2, 1.0], [0.1, 0.1, 0.1]]),
    family(
        "MultivariateNormal precision_matrix",
        ([0.1, 0.2, 0.3], COVARIANCE),
        ROWS,
        lambda d, loc, m: d.MultivariateNormal(loc, precision_matrix=m),
    ),
    family(
        "MultivariateNormal scale_tril",
        ([0.1, 0.2, 0.3], TRIL),
        ROWS,
        lambda d, loc, m: d.MultivariateNormal(loc, scale_tril=m),
    ),
    family("RelaxedOneHotCategorical", ([0.7], ROWS), SHARES),
    family(
        "ExpRelaxedCategorical",
        ([0.7], ROWS),
        numpy.log(SHARES),
        lambda d, *p: d.relaxed_categorical.ExpRelaxedCategorical(*p),
    ),
    family("Wishart", ([4.0, 5.5], COVARIANCE), COVARIANCE),
    family(
        "Wishart scale_tril",
        ([4.0], TRIL),
        COVARIANCE,
        lambda d, df, m: d.Wishart(df, scale_tril=m),
    ),
    family(
        "MixtureSameFamily vectors",
        (SHARES[0], [[0.0, 1.0], [1.0, 2.0], [-2.0, 0.5]]),
        [0.4, -1.0],
        lambda d, p, loc: d.MixtureSameFamily(
            d.Categorical(p), d.Independent(d.Normal(loc, 1.0), 1)
        ),
    ),
]
# The value of LKJCholesky must be a factor of correlations.
_unit = A(TRIL) / numpy.linalg.norm(A(TRIL), axis=-1, keepdims=True)
VECTORS[2] = VECTORS[2]._replace(value=_unit)

DISCRETE = [
    family("Bernoulli", (P,), [0, 1], discrete=True),
    family("Bernoulli logits", (LOC,), [0, 1], lambda d, p: d.Bernoulli(logits=p), discrete=True),
    family("Binomial", (P,), [2, 4], lambda d, p: d.Binomial(5, p), discrete=True),
    family("Binomial logits", (LOC,), [2, 4], lambda d, p: d.Binomial(5, logits=p), discrete=True),
    family("Categorical", (ROWS,), [0, 2], discrete=True),
    family(
        "Categorical logits", (ROWS,), [0, 2], lambda d, p: d.Categorical(logits=p), discrete=True
    ),
    family("Geometric", (P,), [0, 4], discrete=True),
    family("Geometric logits", (LOC,), [0, 4], lambda d, p: d.Geometric(logits=p), discrete=True),
    family(
        "Multinomial",
        (ROWS,),
        [[1, 3, 1], [4, 0, 1]],
        lambda d, p: d.Multinomial(5, p),
        discrete=True,
    ),
    family("NegativeBinomial", ([3.0, 2.5], P), [0, 4], discrete=True),
    family(
        "NegativeBinomial logits",
        ([3.0, 2.5], LOC),
        [0, 4],
        lambda d, n, p: d.NegativeBinomial(n, logits=p),
        discrete=True,
    ),
    family("OneHotCategorical", (ROWS,), [[1, 0, 0], [0, 0, 1]], discrete=True),
    family("OneHotCategoricalStraightThrough", (ROWS,), [[1, 0, 0], [0, 0, 1]], discrete=True),
    family("Poisson", (ONE,), [0, 4], discrete=True),
]

ALL = CONTINUOUS + VECTORS + DISCRETE


def named(cases):
    """Names for pytest."""
    return [case.name for case in cases]


def instance(torch, case, **options):
    """The distribution, of this module, with parameters that require grad."""
    params = [torch.tensor(p, requires_grad=True) for p in case.params]
    return case.make(torch.distributions, *params), params
