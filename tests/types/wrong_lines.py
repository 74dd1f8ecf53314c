"""Mistakes that type checkers find: those marked, and no others."""

import pullback as torch
import pullback.nn.functional as F

x = torch.ones(2, 3)

x.summ()  # wrong
torch.mul(x)  # wrong
x.sum(dims=1)  # wrong
torch.zeros("a")  # wrong
torch.float33  # wrong
F.softmax(x, dims=1)  # wrong
torch.nn.Linear(3)  # wrong
torch.tensor([1.0], dtype="float32")  # wrong
x.grad.shape  # wrong
torch.cat(x, dim="rows")  # wrong
x.reshape(2, "3")  # wrong
x.sort().value  # wrong
x.sum().backwards()  # wrong
torch.linalg.solve(x)  # wrong
F.cross_entropy(x, x, reduce_by="mean")  # wrong
torch.add(x, x, out="here")  # wrong
x.shape.rows  # wrong
torch.arrange(3)  # wrong
torch.nn.Linearr(3, 4)  # wrong
torch.optim.SGDD  # wrong
torch.autograd.gradd  # wrong
torch.utils.data.DataLoder  # wrong
