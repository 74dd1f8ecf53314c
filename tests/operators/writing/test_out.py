"""`out=` of one array function is written at once, and with what the slow path would leave."""

import numpy
import pytest

import pullback as torch
from pullback.operators.running import interpret

X = numpy.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


@pytest.fixture
def no_slow_path(monkeypatch):
    def fails(*args, **kwargs):
        raise AssertionError("computed apart")

    monkeypatch.setattr(interpret, "compute", fails)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_it_is_written_directly_and_counted(no_slow_path, dtype):
    x, out = torch.tensor(X, dtype=dtype), torch.zeros(2, 3, dtype=dtype)
    memory = out._array
    assert torch.add(x, x, out=out) is out
    assert out._array is memory
    assert out.tolist() == (X + X).tolist()
    assert torch.mul(out, x, out=out) is out
    assert out.tolist() == ((X + X) * X).tolist()
    torch.exp(x, out=out)
    numpy.testing.assert_array_equal(out.numpy(), numpy.exp(x.numpy()))
    assert out._version == 3


def test_with_grad_mode_off_history_is_no_hindrance(no_slow_path):
    x = torch.tensor(X, requires_grad=True)
    out = torch.zeros(2, 3, dtype=torch.float64)
    with torch.no_grad():
        torch.add(x, x, out=out)
    assert not out.requires_grad
    assert out.tolist() == (X + X).tolist()


def test_a_recorded_operand_is_refused_as_ever():
    x = torch.tensor(X, requires_grad=True)
    with pytest.raises(RuntimeError, match="out="):
        torch.add(x, x, out=torch.zeros(2, 3, dtype=torch.float64))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, out: torch.add(x, x, alpha=3, out=out),
        lambda x, out: torch.add(x, 2, out=out),
        lambda x, out: torch.add(x, x[0], out=out),
        lambda x, out: torch.add(x, x.float(), out=out),
        lambda x, out: torch.add(x.t().clone().t(), x, out=out),
        lambda x, out: torch.gt(x, x - 1, out=out),
        lambda x, out: torch.sqrt(x, out=out),
    ],
    ids=["alpha", "number", "broadcast", "dtypes", "layout", "comparison", "one operand"],
)
def test_the_rest_gives_the_same(call):
    x, out = torch.tensor(X), torch.zeros(2, 3, dtype=torch.float64)
    expected = call(x, None)
    assert call(x, out) is out
    numpy.testing.assert_array_equal(out.numpy(), expected.double().numpy())
    assert out._version == 1


def test_a_target_of_another_shape_is_resized_with_a_warning():
    x = torch.tensor(X)
    with pytest.warns(UserWarning, match="resized"):
        out = torch.add(x, x, out=torch.zeros(3, dtype=torch.float64))
    assert out.shape == (2, 3)


def test_a_part_of_an_operand_is_refused_as_target():
    x = torch.tensor(X)
    with pytest.raises(RuntimeError):
        torch.add(x[:, :2].clone(), x[:, :2].clone(), out=x[:1].expand(2, 3)[:, :2])


def test_inference_tensors_are_not_written():
    with torch.inference_mode():
        out = torch.zeros(2, 3, dtype=torch.float64)
    x = torch.tensor(X)
    with pytest.raises(RuntimeError, match="inference"):
        torch.add(x, x, out=out)


def test_limits_are_written_over_the_target():
    for size in (6, 30_000):
        x = torch.linspace(-2, 2, size, dtype=torch.float64)
        x[0] = float("nan")
        expected = x.clamp(-1, 0.5)
        memory = x._array
        assert x.clamp_(-1, 0.5)._array is memory
        numpy.testing.assert_array_equal(memory, expected.numpy())


def test_the_write_is_noted_where_the_user_called():
    x, out = torch.tensor(X), torch.zeros(2, 3, dtype=torch.float64)
    torch.mul(x, x, out=out)
    _, (called, code, _) = out._cell
    assert (called, code.co_name) == ("mul", "test_the_write_is_noted_where_the_user_called")
