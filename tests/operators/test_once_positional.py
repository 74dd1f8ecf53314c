"""Calls from before keywords: `x.add_(2, y)` still means `x.add_(y, alpha=2)`, and warns."""

import pytest

import pullback as torch

X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
V = X[0]
B = X[None]
WARNS = pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning")


@WARNS
@pytest.mark.parametrize(
    ("before", "today"),
    [
        (lambda: X.add(2, X), lambda: X.add(X, alpha=2)),
        (lambda: torch.sub(X, 2, X), lambda: X.sub(X, alpha=2)),
        (lambda: X.addcmul(2, X, X), lambda: X.addcmul(X, X, value=2)),
        (lambda: X.clone().addcdiv_(2, X, X), lambda: X.addcdiv(X, X, value=2)),
        (lambda: X.addmm(2, X, X), lambda: X.addmm(X, X, beta=2)),
        (lambda: X.clone().addmm_(2, 3, X, X), lambda: X.addmm(X, X, beta=2, alpha=3)),
        (lambda: torch.addmm(2, X, 3, X, X), lambda: X.addmm(X, X, beta=2, alpha=3)),
        (lambda: torch.addmv(2, V, X, V), lambda: V.addmv(X, V, beta=2)),
        (lambda: X.addr(2, 3, V, V), lambda: X.addr(V, V, beta=2, alpha=3)),
        (lambda: X.addbmm(2, 3, B, B), lambda: X.addbmm(B, B, beta=2, alpha=3)),
        (lambda: B.baddbmm(2, 3, B, B), lambda: B.baddbmm(B, B, beta=2, alpha=3)),
    ],
)
def test_numbers_between_tensors_are_the_options_of_today(before, today):
    assert before().tolist() == today().tolist()


def test_they_warn_and_say_how_to_write_it():
    with pytest.warns(UserWarning, match=r"write add_\(input, other, alpha=\)"):
        X.clone().add_(2, X)


@WARNS
def test_gradients_flow_and_modes_see_todays_call():
    x = X.clone().requires_grad_()
    x.add(3, x).sum().backward()
    assert x.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]


@pytest.mark.parametrize(
    "call",
    [
        lambda: X.add(X, X),
        lambda: X.add(X, 2, X),
        lambda: X.add(2, 3, X),
        lambda: torch.add(2, X, X),
        lambda: X.addcmul(X, 2, X),
        lambda: X.addmm(2, 3, 4, X, X),
        lambda: X.mul(2, X),
    ],
)
def test_other_orders_are_refused(call):
    with pytest.raises(TypeError, match="position"):
        call()
