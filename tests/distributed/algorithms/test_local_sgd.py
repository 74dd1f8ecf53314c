"""Local SGD: ranks average gradients at first, then models now and then."""

import pullback as torch
import pullback.distributed as dist
from pullback.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook
from pullback.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState
from pullback.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from pullback.distributed.optim import PostLocalSGDOptimizer
from pullback.nn.parallel import DistributedDataParallel


def test_gradients_are_shared_at_first_and_models_afterwards():
    def one():
        model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(model.weight)
        parallel = DistributedDataParallel(model)
        state = PostLocalSGDState(None, None, 2, post_local_gradient_allreduce=False)
        register_ddp_comm_hook(DDPCommHookType.POST_LOCAL_SGD, parallel, state)
        averager = PeriodicModelAverager(period=3, warmup_steps=2)
        optimizer = PostLocalSGDOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), averager)
        found = []
        for _ in range(6):
            optimizer.zero_grad()
            parallel(torch.tensor([[dist.get_rank() + 1.0]])).sum().backward()
            optimizer.step()
            found.append(model.weight.item())
        assert optimizer.state_dict()["step"] == 6
        return found

    first, second = dist.threads.run(one, 2)
    assert first[:3] == second[:3] == [-1.5, -3.0, -4.5]  # the third step's models are averaged
    assert first[3:] == [-5.5, -6.5, -9.0]
    assert second[3:] == [-6.5, -8.5, -9.0]


def test_without_communication_each_rank_keeps_its_gradient():
    def one():
        parallel = DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
        register_ddp_comm_hook(DDPCommHookType.NOOP, parallel)
        parallel(torch.tensor([[dist.get_rank() + 1.0]])).sum().backward()
        return parallel.module.weight.grad.item()

    assert dist.threads.run(one, 2) == [1.0, 2.0]
