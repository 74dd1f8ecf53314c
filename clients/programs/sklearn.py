"""scikit-learn on tensors (array_api_dispatch): estimators, scalers and metrics that stay tensors."""

import os

os.environ["SCIPY_ARRAY_API"] = "1"

import numpy as np
import sklearn
import torch
from sklearn import (
    decomposition,
    discriminant_analysis,
    linear_model,
    metrics,
    mixture,
    model_selection,
    pipeline,
    preprocessing,
)

sklearn.set_config(array_api_dispatch=True)
rng = np.random.default_rng(0)
x = torch.from_numpy(rng.standard_normal((60, 5)))
weights = torch.tensor([1.0, -2.0, 0.5, 0.0, 3.0], dtype=torch.float64)
y = x @ weights + 0.1 * torch.from_numpy(rng.standard_normal(60))
classes = (y > 0).to(torch.int64)


def show(name, value):
    if isinstance(value, torch.Tensor):
        kind = str(value.dtype)
        value = [round(number, 4) for number in value.double().flatten()[:4].tolist()]
    else:
        kind, value = type(value).__name__, round(float(value), 4)
    print(name, kind, value)


ridge = linear_model.Ridge(alpha=0.5, solver="svd").fit(x, y)
show("ridge", ridge.coef_)
show("ridge.predict", ridge.predict(x[:3]))
show("r2", metrics.r2_score(y, ridge.predict(x)))
show("mse", metrics.mean_squared_error(y, ridge.predict(x)))
show("mae", metrics.mean_absolute_error(y, ridge.predict(x)))

pca = decomposition.PCA(2, svd_solver="full").fit(x)
show("pca", pca.explained_variance_ratio_)
show("pca.transform", torch.abs(pca.transform(x[:2])))

lda = discriminant_analysis.LinearDiscriminantAnalysis(solver="svd").fit(x, classes)
show("lda", lda.predict(x[:4]))
show("accuracy", metrics.accuracy_score(classes, lda.predict(x)))
show("f1", metrics.f1_score(classes, lda.predict(x)))
show("zero_one", metrics.zero_one_loss(classes, lda.predict(x)))

for scaler in (
    preprocessing.StandardScaler(),
    preprocessing.MinMaxScaler(),
    preprocessing.MaxAbsScaler(),
    preprocessing.Normalizer(),
    preprocessing.PolynomialFeatures(2),
    preprocessing.KernelCenterer(),
):
    given = x @ x.T if isinstance(scaler, preprocessing.KernelCenterer) else x
    show(type(scaler).__name__, scaler.fit_transform(given))

chain = pipeline.make_pipeline(preprocessing.StandardScaler(), decomposition.PCA(3))
show("pipeline", torch.abs(chain.fit_transform(x)))
train, test = model_selection.train_test_split(x, test_size=0.25, random_state=0)
show("split", train)
show("rbf", metrics.pairwise.rbf_kernel(x[:3], x[:3]))
show("euclidean", metrics.pairwise.euclidean_distances(x[:2], x[:2]))
show("cosine", metrics.pairwise.cosine_similarity(x[:2], x[:2]))
show("entropy", metrics.log_loss(classes, torch.full((60, 2), 0.5, dtype=torch.float64)))
confused = metrics.confusion_matrix(classes, lda.predict(x))
show("confusion", confused if isinstance(confused, torch.Tensor) else torch.from_numpy(confused))
gaussian = mixture.GaussianMixture(2, random_state=0, init_params="random").fit(x)
show("mixture", gaussian.weights_)


def slope(name, function):
    """The gradient that flows through scikit-learn's own array code."""
    given = x.clone().requires_grad_()
    (function(given) ** 2).sum().backward()
    show(f"slope of {name}", given.grad)


slope("rbf", lambda t: metrics.pairwise.rbf_kernel(t[:3], x[3:6]))
slope("polynomial", lambda t: metrics.pairwise.polynomial_kernel(t[:3], x[3:6]))
slope("euclidean", lambda t: metrics.pairwise.euclidean_distances(t[:3], x[3:6]))
slope("StandardScaler", preprocessing.StandardScaler().fit(x).transform)
slope("MinMaxScaler", preprocessing.MinMaxScaler().fit_transform)
slope("ridge", ridge.predict)
slope("pca", pca.transform)
