"""opt-einsum: contraction paths on tensors, gradients through them, expressions made once."""

import opt_einsum
import torch

torch.manual_seed(0)
a, b, c = (torch.randn(*shape, requires_grad=True) for shape in ((4, 5), (5, 6, 3), (6, 4)))
out = opt_einsum.contract("ij,jkl,ki->l", a, b, c)
grads = torch.autograd.grad(out.sum(), (a, b, c))
print([f"{one:.4f}" for one in out.tolist()], [f"{g.norm().item():.4f}" for g in grads])
path, info = opt_einsum.contract_path("ij,jkl,ki->l", a, b, c, optimize="optimal")
print(path, info.opt_cost)
expression = opt_einsum.contract_expression("ij,jk,kl->il", (4, 5), (5, 6), (6, 2))
print(f"{expression(a, b[:, :, 0], torch.ones(6, 2)).norm().item():.4f}")
constant = opt_einsum.contract_expression("ij,jk->ik", a.detach(), (5, 2), constants=[0])
print(f"{constant(torch.ones(5, 2)).sum().item():.4f}")
print(
    f"{opt_einsum.contract('...ij,...jk', torch.ones(2, 3, 4), torch.ones(2, 4, 5)).sum().item():.1f}"
)
with opt_einsum.shared_intermediates():
    one = opt_einsum.contract("ab,bc,cd->ad", a, b[:, :, 0], c)
    two = opt_einsum.contract("ab,bc,cd->d", a, b[:, :, 0], c)
print(torch.allclose(one.sum(0), two, atol=1e-5))
print(
    f"{torch.einsum('ij,jkl,ki->l', a, b, c).sum().item():.4f}",
    torch.backends.opt_einsum.is_available(),
)
