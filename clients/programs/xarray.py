"""xarray over tensors, by their array namespace: labelled dimensions, with gradients."""

import numpy as np
import torch
import xarray as xr

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


def show(name, value):
    data = value.data
    assert isinstance(data, torch.Tensor), (name, type(data))
    numbers = [round(number, 4) for number in data.double().flatten()[:4].tolist()]
    print(name, value.dims, tuple(data.shape), data.requires_grad, numbers)


x = torch.linspace(0.1, 1.2, 12).reshape(3, 4).requires_grad_()
days, places = [0, 1, 2], list("abcd")
field = xr.DataArray(x, dims=("day", "place"), coords={"day": days, "place": places})
weights = xr.DataArray(torch.tensor([1.0, 2.0, 3.0, 4.0]), dims="place", coords={"place": places})

show("arithmetic", 2 * field**2 - field / 3)
show("by name", field * weights)
show("ufunc", np.exp(field))
show("isel", field.isel(day=1))
show("sel", field.sel(place="c"))
show("slice", field.sel(place=slice("b", "c")))
show("transpose", field.transpose("place", "day"))
show("sum", field.sum("day"))
show("mean", field.mean("place"))
show("std", field.std("day"))
show("max", field.max())
show("where", field.where(field > 0.5, 0.0))
show("concat", xr.concat([field, field + 1], "day"))
show("stack", field.stack(cell=("day", "place")))
show("dot", xr.dot(field, weights))
show("apply", xr.apply_ufunc(torch.tanh, field))
show("clip", field.clip(0.3, 0.9))
show("cumsum", field.cumsum("day"))
show("diff", field.diff("day"))
show("roll", field.roll(day=1))
show("groupby", field.groupby("day").mean())
show("sortby", field.sortby("place", ascending=False))
show("broadcast", xr.broadcast(weights, field)[0])

# A loss in labels, and its gradient.
apart = field - field.mean("day")
loss = (apart**2 * weights).sum() / weights.sum()
loss.data.backward()
show("slope", xr.DataArray(x.grad, dims=field.dims))
expected = 2 * (x.detach() - x.detach().mean(0)) * weights.data / weights.data.sum()
print("as by hand", torch.allclose(x.grad, expected))
