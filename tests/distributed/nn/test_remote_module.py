"""Modules on other workers: called, trained and stepped there."""

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed import rpc
from pullback.distributed.nn import RemoteModule
from pullback.distributed.optim import DistributedOptimizer


def workers(count, first):
    def main():
        rpc.init_rpc(f"worker{dist.get_rank()}")
        try:
            return first() if dist.get_rank() == 0 else None
        finally:
            rpc.shutdown()

    return dist.threads.run(main, count, timeout=20.0)[0]


class Scale(torch.nn.Module):
    def __init__(self, by, *, shift=0.0):
        super().__init__()
        self.by, self.shift = torch.nn.Parameter(torch.tensor(by)), shift

    def forward(self, x, *, again=1):
        return x * self.by * again + self.shift + 100.0 * (not self.training)


@pytest.mark.parametrize("place", ["worker1", "worker1/cpu", "rank:1/cpu", "worker0"])
def test_calls_and_gradients_go_there(place):
    def first():
        module = RemoteModule(place, Scale, (3.0,), {"shift": 1.0})
        x = torch.ones(2, requires_grad=True)
        assert module(x).tolist() == [4.0, 4.0]
        assert module.forward_async(x, again=2).wait().tolist() == [7.0, 7.0]
        assert module.eval()(x).tolist() == [104.0, 104.0]
        assert module.train()(x).tolist() == [4.0, 4.0]
        (rref,) = module.remote_parameters()
        optimizer = DistributedOptimizer(torch.optim.SGD, [rref], lr=0.5)
        with dist.autograd.context() as context:
            dist.autograd.backward(context, [module(x).sum()])
            assert dist.autograd.get_gradients(context)[x].tolist() == [3.0, 3.0]
            optimizer.step(context)
        assert module(x).tolist() == [3.0, 3.0]  # 3 - 0.5 * 2 is 2

    workers(2, first)


def through(module, x):
    return module(x)


def test_it_can_be_given_to_other_workers():
    def first():
        module = RemoteModule("worker1", Scale, (2.0,))
        assert rpc.rpc_sync("worker2", through, (module, torch.ones(1))).tolist() == [2.0]
        again = RemoteModule.init_from_module_rref("worker1", module.get_module_rref())
        assert again(torch.ones(1)).tolist() == [2.0]

    workers(3, first)


def test_what_is_for_modules_that_are_here_is_refused():
    def first():
        module = RemoteModule("worker1", Scale, (2.0,))
        for name in ("parameters", "state_dict", "to", "cpu", "zero_grad", "modules"):
            with pytest.raises(ValueError, match=rf"{name}\(\) is for modules that are here"):
                getattr(module, name)()
        with pytest.raises(ValueError, match="names no worker"):
            RemoteModule("/cpu", Scale)
        with pytest.raises(ValueError, match="no worker 'nobody'"):
            RemoteModule("nobody", Scale)

    workers(2, first)
