"""Matrices shared out over ranks: losses are those of one process, alone and with other ways."""

import os
from itertools import product

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed.fsdp import fully_shard
from pullback.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    full,
    init_device_mesh,
    ones,
    rand,
    randn,
    zeros,
)
from pullback.distributed.tensor.experimental import local_map
from pullback.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    loss_parallel,
    parallelize_module,
)
from tests.distributed.tensor import parallel_models as models

# `make test-distributed` has all of it, `make test` a short form.
ALL = "PULLBACK_TEST_HOSTS" in os.environ
COMBINATIONS = [*product((False, True), repeat=3)] if ALL else [(True, True, False), (True,) * 3]


def line():
    return init_device_mesh("cpu", (dist.get_world_size(),))


@pytest.fixture(scope="module")
def losses():
    return models.alone()


@pytest.mark.parametrize(
    ("ranks", "options"),
    [(2, {}), (4, {}), (2, {"sequence": True}), (2, {"checkpoints": True})],
)
def test_ten_steps_of_a_transformer_in_parts_give_one_processs_losses(losses, ranks, options):
    for found in dist.threads.run(lambda: models.shared_out(**options), ranks):
        assert found == pytest.approx(losses, abs=1e-6)


@pytest.mark.parametrize(
    ("ranks", "options"),
    [(4, {}), (4, {"checkpoints": True}), (2, {"shape": (2, 1)}), (2, {"shape": (1, 2)})],
)
def test_fully_shard_goes_on_top(losses, ranks, options):
    for found in dist.threads.run(lambda: models.in_two_ways(**options), ranks):
        assert found == pytest.approx(losses, abs=1e-6)


@pytest.mark.parametrize(("checkpoints", "compiled", "autocast"), COMBINATIONS)
def test_both_go_with_compiled_parts_checkpoints_and_autocast(checkpoints, compiled, autocast):
    if compiled:
        pytest.importorskip("llvmlite", reason="compiled programs are machine code")
    if autocast:
        pytest.importorskip("ml_dtypes", reason="bfloat16 comes from ml_dtypes: pullback[full]")
    options = {"checkpoints": checkpoints, "compiled": compiled, "autocast": autocast}
    wanted = models.alone(autocast=autocast)
    # Half precision rounds sums of rows otherwise when other ranks have some of them.
    for found in dist.threads.run(lambda: models.in_two_ways(**options), 4):
        assert found == pytest.approx(wanted, abs=2e-2 if autocast else 1e-6)


def test_gradients_are_clipped_by_the_norm_of_the_whole():
    wanted = models.alone(clip=0.3)
    for found in dist.threads.run(lambda: models.in_two_ways(clip=0.3), 4):
        assert found == pytest.approx(wanted, abs=1e-6)


def test_autocast_computes_the_same_in_parts():
    wanted = models.alone(autocast=True)
    for found in dist.threads.run(lambda: models.shared_out(autocast=True), 2):
        assert found == pytest.approx(wanted, abs=2e-2)  # sums of halves are rounded in parts


def test_parts_of_parts_are_put_together_in_order():
    def one():
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        layer = torch.nn.Linear(3, 10)
        weight = torch.arange(30.0).reshape(10, 3)
        with torch.no_grad():
            layer.weight.copy_(weight)
        parallelize_module(layer, mesh["tp"], ColwiseParallel())
        fully_shard(layer, mesh=mesh["dp"])
        part = layer.weight
        assert list(part.shape) == [10, 3]
        assert torch.equal(part.full_tensor(), weight)
        assert torch.equal((part * 2).full_tensor(), weight * 2)
        assert torch.linalg.vector_norm(part).full_tensor() == torch.linalg.vector_norm(weight)
        layer.load_state_dict({"weight": weight + 1, "bias": torch.ones(10)})
        assert torch.equal(layer.weight.full_tensor(), weight + 1)

    dist.threads.run(one, 4)


def test_scores_in_parts_are_not_gathered_for_cross_entropy():
    scores = torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    target = torch.tensor([0, 4, 2, -100, 1, 3])
    weight = torch.linspace(0.5, 1.5, 5, dtype=torch.float64)

    def one(where, reduction, weight):
        mesh = line()
        x = distribute_tensor(scores, mesh, [where]).requires_grad_()
        with loss_parallel():
            loss = torch.nn.functional.cross_entropy(x, target, weight, reduction=reduction)
            loss.sum().backward()
        assert x.grad.placements == (where,)
        return loss.full_tensor().detach(), x.grad.full_tensor()

    for where in (Shard(0), Shard(1)):
        for reduction in ("mean", "sum", "none"):
            for given in (None, weight):
                x = scores.clone().requires_grad_()
                loss = torch.nn.functional.cross_entropy(x, target, given, reduction=reduction)
                loss.sum().backward()
                for found in dist.threads.run(one, 2, where, reduction, given):
                    torch.testing.assert_close(found, (loss.detach(), x.grad))


def test_inputs_and_outputs_are_moved_as_told():
    class Pair(torch.nn.Module):
        def forward(self, x, *, y):
            return x + y, type(x).__name__

    def one():
        mesh = line()
        style = PrepareModuleInput(
            input_layouts=(Shard(0),),
            desired_input_layouts=(Replicate(),),
            input_kwarg_layouts={"y": Shard(0)},
            desired_input_kwarg_layouts={"y": Replicate()},
        )
        made, kind = parallelize_module(Pair(), mesh, style)(torch.ones(2), y=torch.ones(2))
        assert kind == "DTensor"
        assert list(made.shape) == [4]
        style = PrepareModuleOutput(
            output_layouts=(Shard(0), None), desired_output_layouts=(Replicate(), None)
        )
        made, _ = parallelize_module(Pair(), mesh, style)(torch.ones(2), y=torch.ones(2))
        assert list(made.shape) == [4]
        both = PrepareModuleInputOutput(
            input_layouts=Shard(0),
            desired_input_layouts=Replicate(),
            use_local_input=True,
            output_layouts=Replicate(),
            desired_output_layouts=Shard(0),
        )
        layer = parallelize_module(torch.nn.Identity(), mesh, both)
        assert layer(torch.arange(2.0) + 2 * dist.get_rank()).tolist() == (
            [0.0, 1.0] if dist.get_rank() == 0 else [2.0, 3.0]
        )
        with pytest.raises(ValueError, match="1 layouts for 2 inputs"):
            parallelize_module(torch.nn.Bilinear(1, 1, 1), mesh, both)(torch.ones(1), torch.ones(1))

    dist.threads.run(one, 2)


def test_plans_go_by_names_and_say_what_they_do_not_find():
    def one():
        mesh = line()
        model = torch.nn.ModuleDict({"a": torch.nn.Sequential(torch.nn.Linear(2, 4))})
        parallelize_module(model, mesh, {"a.*": ColwiseParallel()})
        assert model["a"][0].weight.placements == (Shard(0),)
        with pytest.warns(UserWarning, match="no module is called"):
            parallelize_module(model, mesh, {"b": RowwiseParallel()})
        with pytest.raises(NotImplementedError, match=r"nn\.Linear and nn\.Embedding"):
            parallelize_module(torch.nn.Conv1d(1, 1, 1), mesh, ColwiseParallel())
        with pytest.raises(RuntimeError, match="already"):
            distribute_module(model["a"][0], mesh)

    dist.threads.run(one, 1)


def test_tensors_are_made_in_parts():
    def one():
        mesh = line()
        assert zeros(5, 2, device_mesh=mesh, placements=[Shard(0)]).full_tensor().eq(0).all()
        assert ones((3,), device_mesh=mesh).to_local().tolist() == [1.0] * 3
        x = full((5,), 2.5, device_mesh=mesh, placements=[Shard(0)], requires_grad=True)
        assert x.requires_grad
        assert x.full_tensor().tolist() == [2.5] * 5
        with pytest.raises(ValueError, match="not as partial sums"):
            zeros(2, device_mesh=mesh, placements=[Partial()])
        return [
            make(7, device_mesh=mesh, placements=[Shard(0)]).full_tensor().tolist()
            for make in (rand, randn)
        ]

    first, *others = dist.threads.run(one, 4)
    assert all(other == first for other in others)


def test_functions_of_plain_tensors_get_parts():
    def one():
        mesh = line()
        x = distribute_tensor(torch.arange(6.0).reshape(2, 3), mesh, [Shard(0)]).requires_grad_()
        w = distribute_tensor(torch.ones(3, 2), mesh).requires_grad_()
        product = local_map(
            lambda a, b: a @ b,
            out_placements=[Shard(0)],
            in_placements=([Shard(0)], [Replicate()]),
            in_grad_placements=([Shard(0)], [Partial()]),
        )
        made = product(x, w)
        assert isinstance(made, DTensor)
        made.sum().backward()
        moved = local_map(lambda a: a * 1, [Shard(0)], ([Shard(0)],), redistribute_inputs=True)
        assert moved(x.detach().redistribute(placements=[Replicate()])).placements == (Shard(0),)
        with pytest.raises(ValueError, match="redistribute_inputs=True"):
            product(x, w.redistribute(placements=[Shard(0)]))
        return made.full_tensor().tolist(), w.grad.full_tensor().tolist()

    wanted = [[3.0, 3.0], [12.0, 12.0]], [[3.0, 3.0], [5.0, 5.0], [7.0, 7.0]]
    assert dist.threads.run(one, 2) == [wanted] * 2


def test_compiled_models_in_parts_are_right():
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.GELU(), torch.nn.Linear(6, 3))
    state = {name: one.clone() for name, one in plain.state_dict().items()}
    x = torch.randn(5, 4)
    plain(x).square().mean().backward()

    def one():
        model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.GELU(), torch.nn.Linear(6, 3))
        model.load_state_dict(state)
        parallelize_module(model, line(), {"0": ColwiseParallel(), "2": RowwiseParallel()})
        compiled = torch.compile(model)
        for _ in range(3):
            model.zero_grad()
            compiled(x).square().mean().backward()
        return [p.grad.full_tensor() for p in model.parameters()]

    for found in dist.threads.run(one, 2):
        for got, p in zip(found, plain.parameters(), strict=True):
            torch.testing.assert_close(got, p.grad)
