"""`replicate`: the gradients of DistributedDataParallel in the module itself."""

import copy

import pytest
from pullback.distributed._composable import replicate

import pullback as torch
import pullback.distributed as dist
from pullback.nn.parallel import DistributedDataParallel


def layers():
    linear = torch.nn.Linear
    return torch.nn.Sequential(linear(3, 4), torch.nn.BatchNorm1d(4), linear(4, 2))


def trained(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x = torch.linspace(-1, 1, 12).view(4, 3) * (dist.get_rank() + 1) + step
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return [p.tolist() for p in model.parameters()] + [b.tolist() for b in model.buffers()]


def test_training_is_that_of_the_wrapper():
    def one():
        model = layers()
        with torch.no_grad():
            for p in model.parameters():
                p.fill_(0.1 + dist.get_rank())  # the first rank's count
        wrapped = copy.deepcopy(model)
        assert replicate(model) is model
        assert next(iter(model.state_dict())) == "0.weight"
        assert type(model).__name__ == "DDPSequential"
        return trained(model), trained(DistributedDataParallel(wrapped))

    for found, wanted in dist.threads.run(one, 2):
        assert found == wanted


def test_passes_without_synchronization_ignored_parts_and_hooks():
    def one():
        rank = dist.get_rank()
        model = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1))
        with torch.no_grad():
            for p in model.parameters():
                p.fill_(1.0)
            model[1].bias.fill_(5.0 + rank)
        replicate(model, ignored_modules=[model[1]])
        x = torch.full((1, 1), rank + 1.0)
        model.set_requires_gradient_sync(False)
        model(x).sum().backward()
        found = [model[0].weight.grad.item()]
        model.set_requires_gradient_sync(True)
        model(x).sum().backward()
        found += [model[0].weight.grad.item(), model[1].weight.grad.item()]
        assert model[1].bias.item() == 5.0 + rank  # left alone
        with pytest.raises(ValueError, match="already"):
            replicate(model)
        with pytest.raises(RuntimeError, match="has no copies"):
            copy.deepcopy(model)
        return found

    assert dist.threads.run(one, 2) == [[1.0, 3.0, 4.0], [2.0, 3.0, 6.0]]
