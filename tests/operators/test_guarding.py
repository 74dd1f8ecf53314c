"""Plain functions say which argument was no tensor, and pass everything else on."""

import numpy
import pytest

import pullback as torch
from pullback.operators.guarding import guarded

CALLS = {
    "flatten": lambda: torch.flatten(3),
    "detach": lambda: torch.detach(3),
    "cross": lambda: torch.cross(torch.ones(3), 3, dim=0),
    "solve": lambda: torch.linalg.solve(torch.eye(2), 1.5),
    "fft": lambda: torch.fft.fft("text"),
    "masked_fill": lambda: torch.masked_fill(torch.ones(2), 3, 1.0),
    "kron": lambda: torch.ones(2).kron(None),
    "mse_loss": lambda: torch.nn.functional.mse_loss(torch.ones(2), [1.0, 1.0]),
    "multi_dot": lambda: torch.linalg.multi_dot([torch.ones(2), 3]),
    "vsplit": lambda: torch.vsplit(input=-2, indices_or_sections=2),
    "svd_lowrank": lambda: torch.svd_lowrank(torch.ones(3, 4), 1, 2, 1j),
    "cov": lambda: torch.cov(torch.ones(2, 3), fweights=numpy.ones(3)),
    "embedding_bag": lambda: torch.nn.functional.embedding_bag(numpy.float32(1.5), ()),
    "gaussian_nll_loss": lambda: torch.nn.functional.gaussian_nll_loss(
        torch.ones(1), torch.ones(1), numpy.float32(1.5)
    ),
    "fuse_linear_bn_weights": lambda: torch.nn.utils.fuse_linear_bn_weights(
        torch.ones(2), torch.ones(2), torch.ones(2), 2, 1.5, torch.ones(2), torch.ones(2)
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_is_no_tensor_is_named_with_its_function(name):
    """Issue 15, item 8: these ended in "'int' object has no attribute '_array'"."""
    with pytest.raises(TypeError, match=rf"{name}.*`[\w ]+` must be a"):
        CALLS[name]()


@pytest.mark.parametrize("name", CALLS)
def test_it_is_named_also_while_classes_that_take_calls_are_about(name):
    class Taker:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "taken"

    assert torch.tensor([1.0]).add(Taker()) == "taken"  # from now on functions ask for it
    with pytest.raises(TypeError, match=rf"{name}.*`[\w ]+` must be a"):
        CALLS[name]()


def test_memory_that_there_is_not_is_a_runtime_error():
    with pytest.raises(RuntimeError, match="no memory"):
        torch.signal.windows.hann(2**45)
    with pytest.raises(RuntimeError, match="no memory"):
        torch.fft.fftfreq(2**45)
    with pytest.raises(RuntimeError, match="bits"):
        torch.ones(2) + 10**400


def test_errors_of_users_pass_through():
    def mistaken(input):
        return [].nothing

    with pytest.raises(AttributeError, match="nothing"):
        guarded(mistaken)(torch.ones(1))


def test_a_guard_is_made_once_and_looks_like_its_function():
    def plain(input, dim=0):
        """What it does."""
        return input + dim

    guard = guarded(plain)
    assert guarded(plain) is guard is guarded(guard)
    assert (guard.__name__, guard.__doc__) == ("plain", "What it does.")
    assert guard(torch.ones(1), dim=2).item() == 3.0


def test_declared_operators_need_no_guard():
    assert guarded(torch.add) is torch.add


@pytest.mark.parametrize("value", [1, 0, 0.5, "yes", None, [], numpy.bool_(1)])
def test_flags_are_true_or_false_and_nothing_that_counts_as_one(value):
    x = torch.eye(3)
    calls = {
        "largest": lambda: x.topk(1, largest=value),
        "equal_nan": lambda: torch.isclose(x, x, equal_nan=value),
        "hermitian": lambda: torch.linalg.ldl_factor(x, hermitian=value),
        "left": lambda: torch.linalg.solve(x, x, left=value),
        "ceil_mode": lambda: torch.nn.functional.max_pool2d(x[None], 1, ceil_mode=value),
        "training": lambda: torch.nn.functional.dropout(x, training=value),
    }
    for name, call in calls.items():
        with pytest.raises(TypeError, match=rf"`{name}` must be bool"):
            call()


def test_what_torch_asks_in_python_may_be_whatever_counts():
    x = torch.tensor([[-1.0, 2.0]])
    assert torch.nn.functional.relu(x.clone(), inplace=1).tolist() == [[0, 2]]
    _, places = torch.nn.functional.max_pool1d(x, 2, return_indices=1)
    assert places.tolist() == [[1]]


def test_what_was_made_of_an_argument_that_is_no_tensor_names_it():
    """Issue 15, item 8: only what was asked itself was looked for among the arguments."""
    with pytest.raises(TypeError, match="`M` must be a Tensor, got complex"):
        torch.svd_lowrank(torch.ones(3, 4), 1, 2, 1j)
    with pytest.raises(TypeError, match="`bn_rv` or `bn_eps` must be a Tensor, got int"):
        torch.nn.utils.fuse_linear_bn_weights(*[torch.ones(2)] * 3, 2, 1, *[torch.ones(2)] * 2)


def test_numbers_beyond_64_bits_are_told_as_such():
    """They ended in NumPy's OverflowError."""
    with pytest.raises(IndexError, match="64 bits"):
        torch.ones(2)[2**63] = 1
    with pytest.raises(RuntimeError, match="64 bits"):
        10**400 in torch.ones(2)
    with pytest.raises(RuntimeError, match="no memory"):
        torch.randperm(2**45)


def test_bytes_are_no_shape():
    """They are sequences of ints to Python: `tile` of a few letters asked for gigabytes."""
    one = torch.ones(1)
    for call in (one.tile, one.reshape, one.expand, one.repeat, one.view, one.permute, one.sum):
        with pytest.raises(TypeError):
            call(b"\x00")
