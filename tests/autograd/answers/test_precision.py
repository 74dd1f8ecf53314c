"""`autograd.precision`: the operators that lose digits, and their lines."""

import inspect

import pytest

import pullback as torch
from pullback.autograd import precision


def cancelling(x):
    near = x.cos()
    return (1 - near).sum()  # lost


def variance_the_short_way(x):
    square = (x * x).mean()
    return square - x.mean() ** 2  # lost


def softmax_by_hand(x):
    e = x.exp()
    return (e / e.sum()).log()[0]


def swallowed(x):
    large = x + 1e8  # lost
    return (large - 1e8).sum()


@pytest.mark.parametrize(
    ("function", "x", "operator"),
    [
        (cancelling, [1e-4, 2e-4], "rsub"),
        (variance_the_short_way, [10000.1, 10000.2, 10000.4], "sub"),
    ],
)
def test_the_operator_that_cancels_comes_first_with_its_line(function, x, operator):
    found = precision(function, torch.tensor(x, requires_grad=True))
    lines, start = inspect.getsourcelines(function)
    assert found[0].operator == operator
    assert found[0].phase == "forward"
    assert found[0].origin.line == start + next(i for i, t in enumerate(lines) if "# lost" in t)
    assert found[0].growth > 1e4
    assert found.error > 1e-3
    assert operator in repr(found)


def test_errors_of_what_is_added_away_show_when_it_is_subtracted():
    found = precision(swallowed, torch.tensor([1.5, 2.5], requires_grad=True))
    assert found[0].operator == "sub"
    assert found.error > 0.1


def test_a_well_behaved_program_keeps_its_digits():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))
    x = torch.randn(4, 5)
    found = precision(lambda: model(x).log_softmax(1).mean())
    assert found.error < 1e-5
    assert len(found.gradients) == 4
    assert max(found.gradients) < 1e-5
    assert all(one.growth < 100 for one in found)


def test_the_backward_is_shadowed_too():
    x = torch.tensor([1e-4], requires_grad=True)
    # tanh'(x) by the rule 1 - y * y is fine here; the user's own rule cancels
    found = precision(lambda: Cancels.apply(x).sum())
    worst = found[0]
    assert (worst.phase, worst.operator) == ("backward", "CancelsBackward: sub")
    assert found.gradients[0] > 1e-4


class Cancels(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1.0

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ((1.0 + x) - 1.0)


def test_doubles_have_nothing_to_lose():
    x = torch.tensor([1e-4, 2e-4], dtype=torch.float64, requires_grad=True)
    found = precision(cancelling, x)
    assert found.error == 0.0


def test_values_gradients_and_random_numbers_are_those_of_a_plain_run():
    x, plain = (torch.linspace(0.1, 1, 6).requires_grad_() for _ in range(2))

    def function(t):
        hidden = torch.nn.functional.dropout(t.exp(), 0.5)
        hidden = hidden.clone()
        hidden[0] = 3.0
        hidden.mul_(2)
        return hidden.view(2, 3).t()[0].sum()

    torch.manual_seed(3)
    found = precision(function, x)
    torch.manual_seed(3)
    expected = function(plain)
    expected.backward()
    assert found.result.item() == expected.item()
    assert x.grad.tolist() == plain.grad.tolist()
    assert found.error < 1e-6


def test_a_function_that_calls_backward_itself_is_not_differentiated_twice():
    x = torch.tensor([1.0, 2.0], requires_grad=True)

    def step():
        loss = (x * 3).sum()
        loss.backward()
        return loss

    precision(step)
    assert x.grad.tolist() == [3.0, 3.0]


def test_half_precision_is_judged_by_its_own_rounding():
    x = torch.linspace(0.1, 1, 6).half().requires_grad_()
    found = precision(lambda: (x * x).sum())
    assert 1e-6 < found.error < 1e-2
    assert all(one.growth < 20 for one in found)


def test_the_page(tmp_path):
    found = precision(cancelling, torch.tensor([1e-4], requires_grad=True))
    found.save(tmp_path / "digits.html")
    text = (tmp_path / "digits.html").read_text("utf-8")
    assert 'class="mark"' in text
    assert "1 - near" in text
