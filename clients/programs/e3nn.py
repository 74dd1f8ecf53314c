"""e3nn: irreducible representations, spherical harmonics, tensor products, an equivariant network."""

import torch
from e3nn import o3
from e3nn.math import soft_one_hot_linspace
from e3nn.nn import BatchNorm, FullyConnectedNet, Gate, NormActivation

torch.manual_seed(0)
irreps = o3.Irreps("4x0e + 3x1o + 2x2e")
print(irreps.dim, irreps.lmax, o3.Irreps("1o") * 2, irreps.sort().irreps)
positions = torch.randn(6, 3, requires_grad=True)
harmonics = o3.spherical_harmonics(
    [0, 1, 2, 3], positions, normalize=True, normalization="component"
)
print(tuple(harmonics.shape), f"{harmonics.abs().sum().item():.4f}")
print(f"{torch.autograd.grad(harmonics.sum(), positions)[0].norm().item():.4f}")
print(f"{o3.wigner_3j(1, 2, 3).norm().item():.4f}")
rotation = o3.rand_matrix()
print(f"{irreps.D_from_matrix(rotation).norm().item():.4f}")

for name, product in {
    "full": o3.FullTensorProduct("2x0e + 1o", "1o"),
    "connected": o3.FullyConnectedTensorProduct(irreps, "0e + 1o", "3x0e + 2x1o"),
    "elementwise": o3.ElementwiseTensorProduct("3x1o", "3x1o", ["0e"]),
    "square": o3.TensorSquare("2x0e + 1o"),
}.items():
    one = torch.randn(5, product.irreps_in1.dim if name != "square" else 5, requires_grad=True)
    parts = (one,) if name == "square" else (one, torch.randn(5, product.irreps_in2.dim))
    out = product(*parts)
    (grad,) = torch.autograd.grad(out.square().sum(), one)
    print(name, product.irreps_out, f"{out.norm().item():.4f} {grad.norm().item():.4f}")
linear = o3.Linear(irreps, "2x0e + 1x1o")
x = torch.randn(4, irreps.dim)
print(f"{linear(x).norm().item():.4f}", linear)


class Layer(torch.nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.gate = Gate("4x0e", [torch.nn.functional.silu], "2x0e", [torch.sigmoid], "2x1o")
        self.harmonics = o3.Irreps.spherical_harmonics(2)
        self.product = o3.FullyConnectedTensorProduct(
            inputs, self.harmonics, self.gate.irreps_in, shared_weights=False
        )
        self.radial = FullyConnectedNet(
            [8, 16, self.product.weight_numel], torch.nn.functional.silu
        )
        self.norm = BatchNorm(self.gate.irreps_out)
        self.head = o3.Linear(self.gate.irreps_out, outputs)

    def forward(self, x, positions):
        count = len(positions)
        source, target = (1 - torch.eye(count)).nonzero(as_tuple=True)
        edges = positions[source] - positions[target]
        lengths = soft_one_hot_linspace(
            edges.norm(dim=1), 0.0, 4.0, 8, basis="smooth_finite", cutoff=True
        )
        messages = self.product(
            x[source],
            o3.spherical_harmonics(self.harmonics, edges, True, normalization="component"),
            self.radial(lengths * 8**0.5),
        )
        nodes = x.new_zeros(count, messages.shape[1]).index_add(0, target, messages)
        return self.head(self.norm(self.gate(nodes / count**0.5)))


layer = Layer("2x0e", "0e + 1o")
features, points = torch.randn(6, 2), torch.randn(6, 3)
optimizer = torch.optim.Adam(layer.parameters(), lr=1e-2)
for _ in range(4):
    optimizer.zero_grad()
    loss = (layer(features, points) - 1).square().mean()
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.4f}")
layer.eval()
turned = layer(features, points @ rotation.T)
expected = layer(features, points) @ o3.Irreps("0e + 1o").D_from_matrix(rotation).T
print("equivariant", torch.allclose(turned, expected, atol=1e-3))
print(f"{NormActivation('2x0e + 1o', torch.tanh)(torch.randn(3, 5)).norm().item():.4f}")
