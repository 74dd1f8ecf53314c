"""safetensors: tensors and models saved, loaded, opened piece by piece."""

import os
import tempfile

import torch
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model

torch.manual_seed(0)
tensors = {
    "half": torch.randn(2, 3).half(),
    "brain": torch.randn(3).bfloat16(),
    "double": torch.randn((), dtype=torch.float64),
    "whole": torch.arange(6).reshape(2, 3),
    "flags": torch.tensor([True, False]),
    "empty": torch.zeros(0, 4),
    "bytes": torch.arange(4, dtype=torch.uint8),
}
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "tensors.safetensors")
    save_file(tensors, path, metadata={"made": "here"})
    for name, value in sorted(load_file(path).items()):
        print(name, value.dtype, tuple(value.shape), torch.equal(value, tensors[name]))
    with safe_open(path, framework="pt", device="cpu") as f:
        print(sorted(f.keys()), f.metadata(), f.get_tensor("whole").sum().item())
        part = f.get_slice("whole")
        print(part.get_shape(), part[:, 1:].tolist())
    print(sorted(load(save(tensors))) == sorted(tensors))
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    other = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    save_model(model, os.path.join(folder, "model.safetensors"))
    print(load_model(other, os.path.join(folder, "model.safetensors")))
    print(torch.equal(model[0].weight, other[0].weight))
    tied = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    tied[1].weight = tied[0].weight
    save_model(tied, os.path.join(folder, "tied.safetensors"))
    print(sorted(load_file(os.path.join(folder, "tied.safetensors"))))
    try:
        save_file(dict(tied.state_dict()), path)
    except RuntimeError as error:
        print("shared memory refused", "share memory" in str(error))
    try:
        save_file({"t": torch.ones(3, 4).t()}, path)
    except ValueError as error:
        print("non contiguous refused", "contiguous" in str(error))
