"""What a budget leaves as it is: errors, writes, hooks, graphs that are kept, threads."""

import threading

import numpy
import pytest

import pullback as torch
from pullback.autograd.graph import memory_budget
from tests.autograd.budget.nets import Trained

functional = torch.nn.functional


def waves(x, count=8):
    for _ in range(count):
        x = x.sin()
    return x


def leaf(size=1000):
    return torch.linspace(-1, 1, size).requires_grad_()


def gradient_of(loss, x):
    (made,) = torch.autograd.grad(loss, x)
    return made.numpy().tobytes()


@pytest.mark.parametrize(
    ("size", "number"),
    [(7, 7), ("7", 7), ("2 KiB", 2048), ("1.5 kB", 1500), ("3MB", 3_000_000), ("2 GiB", 2 << 30)],
)
def test_sizes_are_numbers_or_text(size, number):
    assert memory_budget(size).bound == number


@pytest.mark.parametrize("size", ["", "two", "2 XB", "-1", 0, -5, None, 1.5, True])
def test_other_sizes_are_refused(size):
    with pytest.raises(ValueError, match="memory_budget"):
        memory_budget(size)


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder"):
        memory_budget("1 MB", spill=tmp_path / "none")


def test_with_gives_the_budget_and_a_step_must_be_over():
    with memory_budget("1 MB") as budget:
        pass
    assert isinstance(budget, memory_budget)
    with pytest.raises(RuntimeError, match="no step is over"):
        _ = budget.last


def test_the_first_step_measures_and_the_others_plan():
    x, budget = leaf(), memory_budget(12_000)
    wanted = gradient_of(waves(x).sum(), x)
    for _ in range(3):
        with budget:
            loss = waves(x).sum()
        assert gradient_of(loss, x) == wanted
    assert [step.plan.split(":")[0] for step in budget.steps] == ["measured", "planned", "planned"]
    assert "computed again" in str(budget.last)
    assert "3 steps" in repr(budget)


def test_a_step_that_differs_from_the_plan_is_right_and_measured_anew():
    x, budget = leaf(), memory_budget(12_000)
    for count in (8, 8, 12, 12, 5, 8):
        with budget:
            loss = waves(x, count).cos().sum()
        assert gradient_of(loss, x) == gradient_of(waves(x, count).cos().sum(), x)
        assert budget.last.peak <= 12_000


def test_backward_may_be_inside_the_block():
    x = leaf()
    with memory_budget(12_000) as budget:
        for _ in range(2):
            found = gradient_of(waves(x).sum(), x)
    assert found == gradient_of(waves(x).sum(), x)
    assert len(budget.steps) == 2


def test_a_graph_that_is_kept_can_be_used_again():
    x, budget = leaf(), memory_budget(12_000)
    with budget:
        loss = waves(x).sum()
    found = [torch.autograd.grad(loss, x, retain_graph=True)[0].numpy().tobytes() for _ in range(3)]
    assert set(found) == {gradient_of(waves(x).sum(), x)}
    assert not budget.steps
    del loss
    assert budget.last.peak <= 12_000


def test_second_derivatives_are_the_same_bits():
    x = leaf()

    def second(budget):
        if budget is None:
            (first,) = torch.autograd.grad(waves(x).sum(), x, create_graph=True)
        else:
            with budget:
                (first,) = torch.autograd.grad(waves(x).sum(), x, create_graph=True)
        return gradient_of(first.square().sum(), x)

    budget = memory_budget(24_000)
    assert second(budget) == second(None)
    assert budget.last.peak <= 24_000


def test_a_saved_value_that_was_written_to_raises_as_without():
    def program():
        x = leaf()
        y = x.exp()
        z = waves(y)
        y.mul_(2)
        return z.sum()

    with pytest.raises(RuntimeError, match="modified by an inplace operation") as plain:
        program().backward()
    for size in ("1 MB", 12_000):
        with memory_budget(size):
            loss = program()
        with pytest.raises(RuntimeError, match="modified by an inplace operation") as found:
            loss.backward()
        assert "mul_" in str(found.value)
        assert "mul_" in str(plain.value)


def test_writes_in_place_are_made_again_on_copies():
    def program(x):
        y = waves(x * 2, 2)
        y = (y + 1).relu_() * 3
        y = waves(y, 3)
        view = (y * 2).view(10, -1)
        view[0] = 0.5
        view[1:].mul_(2)
        return waves(view.flatten(), 4)

    x = leaf()
    wanted = gradient_of(program(x).sum(), x)
    for size in (100_000, 30_000, 16_000, 13_000):
        budget = memory_budget(size)
        with budget:
            loss = program(x).sum()
        assert gradient_of(loss, x) == wanted
        assert budget.last.peak <= size


def test_a_tensor_of_the_program_that_was_written_to_is_never_used_silently():
    x, bias = leaf(), torch.ones(1000)
    budget = memory_budget("1 MB", spill=False)
    budget._recorder.decide = lambda value: "drop"
    with budget:
        # Nothing saves the bias, but computing the sum again needs it.
        loss = waves(x + bias).sum()
    bias.mul_(2)
    with pytest.raises(RuntimeError, match="written to"):
        loss.backward()


def test_what_the_program_lets_go_of_is_counted():
    def program(x):
        mask = torch.tensor(numpy.tile([0.0, 1.0], 500), dtype=torch.float32)
        return waves(waves(x, 4) * mask, 4)

    x = leaf()
    wanted = gradient_of(program(x).sum(), x)
    budget = memory_budget(16_000)
    with budget:
        loss = program(x).sum()
    assert gradient_of(loss, x) == wanted
    assert budget.last.saved == 8 * 4000  # what 8 sines save, less the leaf, and the mask
    assert budget.last.peak <= 16_000


def test_dropout_is_drawn_again_and_the_stream_goes_on_as_without():
    trained = Trained("residual")
    wanted = trained.step()
    whole = memory_budget("1 GiB")
    trained.step(whole)
    budget = memory_budget(whole.last.saved // 3, spill=False)
    assert trained.step(budget) == wanted  # the state of the generator is among the bits
    assert budget.last.calls


def test_statistics_of_a_norm_are_updated_once():
    trained = Trained("unet")
    wanted = trained.step()
    assert trained.step(memory_budget("60 KiB")) == wanted  # buffers are among the bits


def test_custom_functions_checkpoints_and_autocast_inside():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            square = x * x
            ctx.save_for_backward(x, square)
            return square * x

        @staticmethod
        def backward(ctx, g):
            x, square = ctx.saved_tensors
            return 3 * g * square + 0 * x

    weight = torch.randn(10, 1000)

    def program(x):
        y = Cube.apply(waves(x, 3))
        y = torch.utils.checkpoint.checkpoint(waves, y, use_reentrant=False)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = functional.linear(y, weight)
        return waves(y.float(), 3)

    x = leaf()
    wanted = gradient_of(program(x).sum(), x)
    for size in ("1 MB", 32_000, 24_000):
        budget = memory_budget(size)
        with budget:
            loss = program(x).sum()
        assert gradient_of(loss, x) == wanted


def test_a_step_that_strays_from_its_plan_is_right_and_is_planned_anew():
    """Longer, shorter, of other sizes or operators: at its beginning, middle or end."""

    def program(x, kinds):
        for kind in kinds:
            x = waves(x, 3) if kind == "s" else (x * x if kind == "m" else x.exp().tanh())
        return x.sum()

    budget = memory_budget(5 * 4000, spill=False)
    ways = (
        "ssss",
        "ssss",
        "ssms",
        "ssms",
        "ssms",
        "ss",
        "ssssss",
        "tsss",
        "tsss",
        "s",
        "tsss",
        "tsss",
    )
    for number, kinds in enumerate(ways):
        x = leaf(1000 if number != 3 else 900)
        with budget:
            loss = program(x, kinds)
        assert gradient_of(loss, x) == gradient_of(program(x, kinds), x)
        assert budget.last.peak <= 5 * 4000
    assert "".join(step.plan[0] for step in budget.steps) == "mpmmmmmmpmmp"  # planned, measured


def test_an_operator_that_needs_more_is_named_and_the_budget_stays_usable():
    x, budget = leaf(), memory_budget(3000)
    with pytest.raises(torch.OutOfMemoryError, match=r"4000 bytes .*test_budget\.py"), budget:
        waves(x)
    small = leaf(100)
    with budget:
        loss = waves(small).sum()
    assert gradient_of(loss, small) == gradient_of(waves(small).sum(), small)
    assert budget.last.peak <= 3000


def test_an_exception_in_the_block_leaves_nothing_on():
    x, budget = leaf(), memory_budget(12_000)

    def interrupted():
        with budget:
            waves(x)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    y = waves(x)
    assert type(y.grad_fn._saved_self) is torch.Tensor
    assert budget._store.bytes == 0
    with budget:
        loss = waves(x).sum()
    assert gradient_of(loss, x) == gradient_of(waves(x).sum(), x)


def test_budgets_nest_and_the_inner_one_decides():
    x = leaf()
    outer, inner = memory_budget("1 MB"), memory_budget(12_000)
    with outer:
        y = waves(x, 4)
        with inner:
            y = waves(y, 6)
        loss = waves(y, 2).sum()
    assert gradient_of(loss, x) == gradient_of(waves(x, 12).sum(), x)
    assert inner.last.calls
    assert not outer.last.calls


def test_threads_have_budgets_of_their_own():
    wrong = []

    def work(seed):
        x = torch.linspace(-1, 1, 500 + seed).requires_grad_()
        budget = memory_budget(8_000)
        for _ in range(3):
            with budget:
                loss = waves(x).sum()
            if gradient_of(loss, x) != gradient_of(waves(x).sum(), x) or budget.last.peak > 8_000:
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


def test_one_budget_may_serve_two_threads():
    budget, wrong = memory_budget(40_000), []

    def work(seed):
        x = torch.linspace(-1, 1, 500 + seed).requires_grad_()
        for _ in range(3):
            with budget:
                loss = waves(x).sum()
            if gradient_of(loss, x) != gradient_of(waves(x).sum(), x):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong
