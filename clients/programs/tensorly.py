"""tensorly on the pytorch backend: decompositions, regression, gradients through a factorisation."""

import tensorly as tl
import torch
from tensorly.decomposition import (
    non_negative_parafac,
    parafac,
    robust_pca,
    tensor_train,
    tucker,
)
from tensorly.random import random_cp, random_tucker

tl.set_backend("pytorch")
torch.manual_seed(0)
cp = random_cp((5, 6, 7), rank=3, full=True, random_state=0)
print(type(cp).__name__, cp.dtype, tuple(cp.shape))
for name, run in {
    "parafac": lambda: tl.cp_to_tensor(parafac(cp, rank=3, n_iter_max=30, random_state=1)),
    "svd": lambda: tl.cp_to_tensor(parafac(cp, rank=3, init="svd", n_iter_max=30)),
    "tucker": lambda: tl.tucker_to_tensor(tucker(cp, rank=[3, 3, 3], n_iter_max=10)),
    "train": lambda: tl.tt_to_tensor(tensor_train(cp, rank=[1, 3, 3, 1])),
    "positive": lambda: tl.cp_to_tensor(
        non_negative_parafac(tl.abs(cp), 3, n_iter_max=20, random_state=1)
    ),
}.items():
    error = tl.norm(run() - cp) / tl.norm(cp)
    print(name, f"{error.item():.3f}")
low, sparse = robust_pca(cp, n_iter_max=20)
print(tuple(low.shape), tuple(sparse.shape))
print(tuple(tl.unfold(cp, 1).shape), tuple(tl.fold(tl.unfold(cp, 1), 1, cp.shape).shape))
print(f"{tl.norm(tl.tenalg.mode_dot(cp, tl.ones((2, 6), dtype=cp.dtype), 1)).item():.3f}")
print(f"{tl.tenalg.khatri_rao([tl.ones((3, 2)), tl.ones((4, 2))]).sum().item():.1f}")
u, s, v = tl.tenalg.svd_interface(tl.unfold(cp, 0), n_eigenvecs=2)
print([f"{one:.3f}" for one in s.tolist()])

core, factors = random_tucker((4, 4, 4), rank=[2, 2, 2], random_state=0)
target = random_cp((4, 4, 4), rank=2, full=True, random_state=3)
core = core.clone().requires_grad_()
factors = [f.clone().requires_grad_() for f in factors]
optimizer = torch.optim.Adam([core, *factors], lr=0.05)
for _ in range(5):
    optimizer.zero_grad()
    loss = tl.norm(tl.tucker_to_tensor((core, factors)) - target, 2)
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.4f}")
