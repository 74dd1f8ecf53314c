"""gpytorch: exact regression with predictions, a deep kernel, and a variational classifier."""

import math

import gpytorch
import torch
from linear_operator.operators import DiagLinearOperator, KroneckerProductLinearOperator, to_dense

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)  # small differences grow in training
train_x = torch.linspace(0, 1, 40)
train_y = torch.sin(train_x * 2 * math.pi) + 0.2 * torch.randn(40)


class Exact(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood, kernel):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


for kernel in (
    gpytorch.kernels.RBFKernel(),
    gpytorch.kernels.MaternKernel(nu=2.5),
    gpytorch.kernels.PeriodicKernel() + gpytorch.kernels.LinearKernel(),
    gpytorch.kernels.SpectralMixtureKernel(num_mixtures=2) * gpytorch.kernels.RQKernel(),
):
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Exact(train_x, train_y, likelihood, kernel)
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        loss = -mll(model(train_x), train_y)
        loss.backward()
        optimizer.step()
    model.eval()
    likelihood.eval()
    with torch.no_grad(), gpytorch.settings.fast_pred_var():
        predicted = likelihood(model(torch.linspace(0, 1, 5)))
        lower, upper = predicted.confidence_region()
    print(type(kernel).__name__, f"loss {loss.item():.4f}", f"noise {likelihood.noise.item():.4f}")
    print([f"{one:.3f}" for one in predicted.mean.tolist()], f"{(upper - lower).sum().item():.3f}")


class Variational(gpytorch.models.ApproximateGP):
    def __init__(self, inducing):
        distribution = gpytorch.variational.CholeskyVariationalDistribution(inducing.size(0))
        super().__init__(
            gpytorch.variational.VariationalStrategy(
                self, inducing, distribution, learn_inducing_locations=True
            )
        )
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


labels = (train_y > 0).float()
model, likelihood = Variational(train_x[::5].clone()), gpytorch.likelihoods.BernoulliLikelihood()
mll = gpytorch.mlls.VariationalELBO(likelihood, model, 40)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for _ in range(10):
    optimizer.zero_grad()
    loss = -mll(model(train_x), labels)
    loss.backward()
    optimizer.step()
print(f"variational loss {loss.item():.4f}")
model.eval()
right = likelihood(model(train_x)).mean.ge(0.5).float().eq(labels).float().mean()
print(f"accuracy {right.item():.2f}")

two = torch.stack([train_y, train_y.cos()], -1)


class Multitask(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.MultitaskMean(gpytorch.means.ConstantMean(), 2)
        self.covar_module = gpytorch.kernels.MultitaskKernel(
            gpytorch.kernels.RBFKernel(), num_tasks=2, rank=1
        )

    def forward(self, x):
        return gpytorch.distributions.MultitaskMultivariateNormal(
            self.mean_module(x), self.covar_module(x)
        )


likelihood = gpytorch.likelihoods.MultitaskGaussianLikelihood(num_tasks=2)
model = Multitask(train_x, two, likelihood)
mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
loss = -mll(model(train_x), two)
loss.backward()
print(f"multitask loss {loss.item():.4f}")

a = torch.randn(3, 3)
operator = KroneckerProductLinearOperator(
    DiagLinearOperator(torch.tensor([1.0, 2.0])), a @ a.T + torch.eye(3)
)
print(
    tuple(operator.shape), f"{operator.logdet().item():.4f} {to_dense(operator).sum().item():.4f}"
)
print(f"{torch.linalg.solve(operator, torch.ones(6, 1)).sum().item():.4f}")
print(f"{(operator @ torch.ones(6)).sum().item():.4f}")
