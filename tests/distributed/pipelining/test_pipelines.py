"""Pipelines: gradients and losses are one process's; no order hangs; errors reach all stages."""

from itertools import product

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleLoopedBFS,
    SplitPoint,
    orders,
    pipe_split,
    pipeline,
)
from pullback.distributed.pipelining.messages import StageError

SINGLE, MULTI = (ScheduleGPipe, Schedule1F1B), (ScheduleInterleaved1F1B, ScheduleLoopedBFS)


def fill(*modules):
    """Not by the seed of the process, which ranks that are threads share."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in (p for module in modules for p in module.parameters()):
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 3)


def parts(count):
    """The parts of a model, the same wherever they are made; one hands on two tensors."""
    made = [torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Tanh()) for _ in range(count)]
    fill(*made)
    if count > 2:
        made[1] = Two(made[1])
        made[2] = Sum(made[2])
    return made


class Two(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x), x.argmax(1)


class Sum(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x, index):
        return self.inner(x + x.gather(1, index[:, None]))


def data():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(10, 6, generator=generator), torch.randn(10, 6, generator=generator)


def loss_of(output, target):
    return (output - target).square().sum()  # a sum: microbatches need not be equally large


def alone(count):
    model = parts(count)
    x, y = data()
    for part in model:
        x = part(*x) if isinstance(x, tuple) else part(x)
    loss = loss_of(x, y)
    loss.backward()
    return loss.item(), [p.grad for part in model for p in part.parameters()]


def run_pipeline(kind, count, microbatches, steps=1):
    ranks, rank = dist.get_world_size(), dist.get_rank()
    model = parts(count)
    stages = [PipelineStage(model[k], k, count) for k in range(rank, count, ranks)]
    given = stages[0] if kind in SINGLE else stages
    schedule = kind(given, microbatches, loss_fn=loss_of, scale_grads=False)
    x, y = data()
    losses = []
    for _ in range(steps):
        for stage in stages:
            stage.submod.zero_grad()
        args = (x,) if rank == 0 else ()
        named = {"target": y, "losses": losses} if stages[-1].is_last else {}
        output = schedule.step(*args, **named)
        assert (output is not None) == stages[-1].is_last
    found = {s.stage_index: [p.grad for p in s.submod.parameters()] for s in stages}
    return sum(one.item() for one in losses), found


CASES = [
    *((kind, ranks, ranks, n) for kind in SINGLE for ranks, n in ((1, 3), (2, 1), (2, 4), (4, 5))),
    *((kind, *case) for kind in MULTI for case in ((1, 3, 2), (2, 4, 4), (2, 6, 3), (3, 6, 6))),
]


@pytest.mark.parametrize(("kind", "ranks", "count", "microbatches"), CASES)
def test_gradients_are_those_of_one_process(kind, ranks, count, microbatches):
    loss, gradients = alone(count)
    found = dist.threads.run(run_pipeline, ranks, kind, count, microbatches, 2)
    assert sum(each for each, _ in found) == pytest.approx(loss, rel=1e-6)
    by_stage = {index: grads for _, stages in found for index, grads in stages.items()}
    got = [one for index in sorted(by_stage) for one in by_stage[index]]
    for a, b in zip(got, gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def walk(plans, count):
    """Do the steps of all ranks as soon as each can be; what is left when none can."""
    done = set()
    plans = [list(plan) for plan in plans]
    moved = True
    while moved:
        moved = False
        for plan in plans:
            while plan:
                step = plan[0]
                needed = [step._replace(stage=step.stage - 1)] if step.stage else []
                if not step.forward:
                    needed = [step._replace(forward=True)]
                    if step.stage + 1 < count:
                        needed.append(step._replace(stage=step.stage + 1))
                if any(one not in done for one in needed):
                    break
                done.add(plan.pop(0))
                moved = True
    return plans, done


def test_no_order_hangs_and_all_is_done_once():
    for ranks, local, n in product(range(1, 6), range(1, 5), range(1, 13)):
        every = [("bfs", [orders.looped_bfs(r, ranks, local, n) for r in range(ranks)])]
        if n % max(1, n // ranks) == 0:
            every.append(("i", [orders.interleaved(r, ranks, local, n) for r in range(ranks)]))
        if local == 1:
            single = (orders.gpipe, orders.one_forward_one_backward)
            every += [(order, [order(r, ranks, n) for r in range(ranks)]) for order in single]
        for name, plans in every:
            left, done = walk(plans, ranks * local)
            # What a stage hands on arrives in order, so all stages take microbatches in one order.
            for forward in (True, False):
                mine = {}
                for step in (step for plan in plans for step in plan if step.forward == forward):
                    mine.setdefault(step.stage, []).append(step.microbatch)
                assert len({tuple(order) for order in mine.values()}) == 1
            assert not any(left), (name, ranks, local, n)
            assert len(done) == sum(map(len, plans)) == 2 * ranks * local * n


def test_1f1b_keeps_no_more_microbatches_than_stages_are_behind():
    for stage in range(4):
        kept = most = 0
        for step in orders.one_forward_one_backward(stage, 4, 20):
            kept += 1 if step.forward else -1
            most = max(most, kept)
        assert most == 4 - stage


class Fails(torch.nn.Module):
    def __init__(self, where):
        super().__init__()
        self.where, self.calls = where, 0
        self.weight = torch.nn.Parameter(torch.ones(6))

    def forward(self, x):
        self.calls += 1
        if self.where == "forward" and self.calls == 2:
            raise ArithmeticError("no such number")
        x = x * self.weight
        if self.where == "backward" and self.calls == 2:
            x.register_hook(self.refuse)
        return x

    def refuse(self, g):
        raise ArithmeticError("no such number")


@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.parametrize("kind", SINGLE)
@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_error_of_a_stage_reaches_the_others_and_the_next_step_works(kind, where, failing):
    def work():
        rank = dist.get_rank()
        module = Fails(where) if rank == failing else torch.nn.Linear(6, 6)
        stage = PipelineStage(module, rank, 3)
        schedule = kind(stage, 4, loss_fn=loss_of)
        x, y = data()
        args = (x,) if rank == 0 else ()
        named = {"target": y} if stage.is_last else {}
        try:
            schedule.step(*args, **named)
        except (ArithmeticError, StageError) as error:
            told = f"{type(error).__name__}: {error}"
        else:
            told = "went well"
        output = schedule.step(*args, **named)
        assert stage.submod.weight.grad.isfinite().all()
        return told, output is None

    found = dist.threads.run(work, 3)
    assert [none for _, none in found] == [True, True, False]
    assert found[failing][0] == "ArithmeticError: no such number"
    for rank, (told, _) in enumerate(found):
        if rank == failing or told == "went well":  # behind a backward that failed all is done
            assert rank == failing or (where == "backward" and rank > failing)
            continue
        assert (
            told
            == f"StageError: Stage {failing} on rank {failing}: ArithmeticError: no such number"
        )


def test_eval_gives_outputs_and_no_gradients():
    def work():
        stage = PipelineStage(parts(2)[dist.get_rank()], dist.get_rank(), 2)
        schedule = Schedule1F1B(stage, 3, loss_fn=loss_of)
        with torch.no_grad():
            if stage.is_first:
                schedule.eval(data()[0])
                with pytest.raises(RuntimeError, match="gradients, which are off"):
                    schedule.step(data()[0])
                return None
            output = schedule.eval(target=data()[1], losses=(losses := []))
        assert len(losses) == 3
        assert all(p.grad is None for p in stage.submod.parameters())
        return output

    first, second = parts(2)
    got = dist.threads.run(work, 2)[1]
    torch.testing.assert_close(got, second(first(data()[0])).detach())


def test_what_cannot_be_is_refused():
    def work():
        rank = dist.get_rank()
        with pytest.raises(ValueError, match=f"stage {1 - rank} is for rank {1 - rank} of 2"):
            PipelineStage(torch.nn.ReLU(), 1 - rank, 2)
        with pytest.raises(ValueError, match="4 stages on 2 ranks"):
            ScheduleGPipe(PipelineStage(torch.nn.ReLU(), rank, 4), 2)
        with pytest.raises(ValueError, match="this rank has the stages"):
            ScheduleInterleaved1F1B([PipelineStage(torch.nn.ReLU(), rank, 4)], 2)

    dist.threads.run(work, 2)
    with pytest.raises(ValueError, match="5 microbatches do not part into 2 equal rounds"):
        orders.interleaved(0, 2, 2, 5)

    def small():
        schedule = ScheduleGPipe(PipelineStage(torch.nn.ReLU(), 0, 1), 4)
        with pytest.raises(ValueError, match="does not make 4 microbatches"):
            schedule.step(torch.ones(3, 2))

    dist.threads.run(small, 1)


class Cut(torch.nn.Module):
    def __init__(self, skip=False):
        super().__init__()
        self.first, self.second, self.third = (torch.nn.Linear(6, 6) for _ in range(3))
        self.skip = skip

    def forward(self, x):
        y = self.first(x)
        pipe_split()
        z = self.second(y).relu()
        z = z * y
        pipe_split()
        return self.third(z) + (y if self.skip else 1.0)


def test_models_are_cut_where_they_or_their_callers_say():
    fill(model := Cut())
    x = data()[0]
    pipe = pipeline(model, (x,))
    assert pipe.num_stages == 3
    assert torch.equal(pipe(x), model(x))
    plain = torch.nn.Sequential(*parts(1), torch.nn.ReLU(), *parts(2))
    ends = {"0": SplitPoint.END, "3": SplitPoint.BEGINNING}
    assert pipeline(plain, (x,), split_spec=ends).num_stages == 3
    assert torch.equal(pipeline(plain, (x,), split_spec=ends)(x), plain(x))
    with pytest.raises(ValueError, match="no module 'fourth'"):
        pipeline(model, (x,), split_spec={"fourth": SplitPoint.END})

    def work():
        fill(mine := Cut())
        stage = pipeline(mine, (x,)).build_stage(dist.get_rank())
        schedule = ScheduleGPipe(stage, 5)
        return schedule.step(x) if stage.is_first else schedule.step()

    torch.testing.assert_close(dist.threads.run(work, 3)[2], model(x))


class Skipping(torch.nn.Module):
    """The input goes to all four stages, and what the first makes to the second and the last."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third, self.fourth = (torch.nn.Linear(6, 6) for _ in range(4))

    def forward(self, x, scale):
        y = self.first(x).tanh()
        pipe_split()
        z = self.second(y) * x
        pipe_split()
        z = self.third(z).sin()
        pipe_split()
        return self.fourth(z) * y + x * scale


@pytest.mark.parametrize("kind", [ScheduleGPipe, Schedule1F1B])
def test_what_later_stages_use_is_handed_on_and_so_are_its_gradients(kind):
    x, y = data()
    scale = torch.linspace(0.5, 1.5, len(x)).view(-1, 1)
    fill(model := Skipping())
    torch.nn.functional.mse_loss(out := model(x, scale), y).backward()
    fill(again := Skipping())
    assert torch.equal(pipeline(again, (x, scale))(x, scale), out)

    def work():
        fill(mine := Skipping())
        stage = pipeline(mine, (x, scale)).build_stage(dist.get_rank())
        schedule = kind(stage, 5, torch.nn.functional.mse_loss)
        if stage.is_first:
            schedule.step(x, scale)
        elif stage.is_last:
            schedule.step(target=y)
        else:
            schedule.step()
        return [p.grad for p in stage.submod.parameters()]

    found = [grad for grads in dist.threads.run(work, 4) for grad in grads]
    for got, parameter in zip(found, model.parameters(), strict=True):
        torch.testing.assert_close(got, parameter.grad)
    with pytest.raises(TypeError, match="given by position"):
        pipeline(again, (x, scale))(x)
