"""geoopt: manifolds, their points and maps, and Riemannian optimizers."""

import geoopt
import torch

torch.manual_seed(0)
matrix = torch.randn(5, 5, dtype=torch.float64)
matrix = matrix @ matrix.T
for manifold in (geoopt.Sphere(), geoopt.EuclideanStiefel()):
    start = torch.randn(5, 1, dtype=torch.float64)
    sphere = isinstance(manifold, geoopt.Sphere)
    start = start[:, 0] if sphere else start
    point = geoopt.ManifoldParameter(manifold.projx(start), manifold=manifold)
    for optimizer in (
        geoopt.optim.RiemannianSGD([point], lr=1e-2, momentum=0.9),
        geoopt.optim.RiemannianAdam([point], lr=5e-2),
    ):
        for _ in range(10):
            optimizer.zero_grad()
            value = -(point.T @ matrix @ point).sum() if not sphere else -point @ matrix @ point
            value.backward()
            optimizer.step()
        print(
            manifold.name, type(optimizer).__name__, f"{value.item():.4f} {point.norm().item():.4f}"
        )

ball = geoopt.PoincareBall(c=1.0)
x, y = (ball.projx(torch.rand(3, 2) * 0.5) for _ in range(2))
v = torch.randn(3, 2)
print(f"{ball.dist(x, y).sum().item():.4f} {ball.expmap(x, v).norm().item():.4f}")
print(f"{ball.logmap(x, y).norm().item():.4f} {ball.mobius_add(x, y).norm().item():.4f}")
print(f"{ball.transp(x, y, v).norm().item():.4f} {ball.inner(x, v).sum().item():.4f}")
hyperboloid = geoopt.Lorentz()
a = hyperboloid.projx(torch.randn(2, 4))
print(f"{hyperboloid.dist(a[0], a[1]).item():.4f}")
spd = geoopt.SymmetricPositiveDefinite()
s = spd.random(3, 3, dtype=torch.float64)
t = spd.random(3, 3, dtype=torch.float64)
print(f"{spd.dist(s, t).item():.4f}", spd.check_point_on_manifold(s))
embedding = geoopt.ManifoldParameter(ball.projx(torch.randn(6, 2) * 0.1), manifold=ball)
optimizer = geoopt.optim.RiemannianAdam([embedding], lr=0.05)
for _ in range(10):
    optimizer.zero_grad()
    loss = (ball.dist(embedding[:3], embedding[3:]) - 1).square().mean()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}", type(embedding[0:2]).__name__, embedding.manifold)
product = geoopt.ProductManifold((geoopt.Sphere(), 3), (geoopt.Euclidean(), 2))
print(tuple(product.random(4, 5).shape))
