"""How parameters start: in-place initialisers, under torch's names and with its distributions."""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

from pullback.autograd.grad_mode import no_grad
from pullback.core.listing import only_public as _only_public
from pullback.core.origin import stacklevel
from pullback.core.tensor import Tensor
from pullback.nn.base.old_names import warn_of_old
from pullback.operators.guarding import guard_all as _guard_all

__all__ = [
    *("calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_"),
    *("normal_", "ones_", "orthogonal_", "sparse_", "trunc_normal_", "uniform_", "xavier_normal_"),
    *("xavier_uniform_", "zeros_"),
]

_GAINS = {"tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4}
_ONE = ("linear", "conv1d", "conv2d", "conv3d", "sigmoid")
_TRANSPOSED = ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """By which factor to widen the distribution before this nonlinearity.

    >>> import pullback as torch
    >>> round(torch.nn.init.calculate_gain("relu"), 4)
    1.4142
    """
    if nonlinearity in (*_ONE, *_TRANSPOSED):
        return 1.0
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity == "leaky_relu":
        if param is not None and (isinstance(param, bool) or not isinstance(param, int | float)):
            raise ValueError(f"calculate_gain: a slope must be a number, got {param!r}.")
        slope = 0.01 if param is None else float(param)
        return math.sqrt(2 / (1 + slope**2))
    raise ValueError(f"calculate_gain: {nonlinearity!r} is no nonlinearity that is known here.")


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform numbers between `a` and `b`.

    >>> import pullback as torch
    >>> bool(torch.nn.init.uniform_(torch.empty(100), 2.0, 3.0).min() >= 2)
    True
    """
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Normally distributed numbers.

    >>> import pullback as torch
    >>> torch.nn.init.normal_(torch.empty(2, 3)).shape
    torch.Size([2, 3])
    """
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Normally distributed numbers, drawn again outside of `a` to `b`.

    >>> import pullback as torch
    >>> bool(torch.nn.init.trunc_normal_(torch.empty(100), a=-1.0, b=1.0).abs().max() <= 1)
    True
    """
    if isinstance(tensor, Tensor) and not tensor.is_floating_point():
        raise RuntimeError(f"trunc_normal_: takes floating-point tensors, got {tensor.dtype}.")
    if std == 0:
        raise ValueError("trunc_normal_: a distribution has no std of 0; use constant_.")
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            f"trunc_normal_: mean {mean} is more than 2 std from [{a}, {b}]; the distribution of "
            "the values may be wrong.",
            UserWarning,
            stacklevel=stacklevel(),
        )

    def below(x: float) -> float:
        return (1 + math.erf((x - mean) / std / math.sqrt(2))) / 2

    likely = below(b) - below(a) >= _OFTEN_INSIDE
    propose = _normal_proposals if likely else _uniform_proposals
    with no_grad():
        # All elements are drawn again as long as one is missing, as torch does it.
        missing = propose(tensor, mean, std, (a, b), generator)
        while missing.any():
            other = tensor.clone()
            misses = propose(other, mean, std, (a, b), generator)
            tensor[missing] = other[missing]
            missing &= misses
    return tensor


_OFTEN_INSIDE = 0.3  # from which probability on normal numbers are tried
_Bounds = tuple[float, float]


def _normal_proposals(
    tensor: Tensor, mean: float, std: float, bounds: _Bounds, generator: Any
) -> Any:
    """Fill with normal numbers; which of them lie outside."""
    tensor.normal_(mean, std, generator=generator)
    return (tensor < bounds[0]) | (tensor > bounds[1])


def _uniform_proposals(
    tensor: Tensor, mean: float, std: float, bounds: _Bounds, generator: Any
) -> Any:
    """Fill evenly; which elements a normal distribution would have there too seldom."""
    low, high = bounds
    tensor.uniform_(low, high, generator=generator)
    chance = tensor.clone().uniform_(generator=generator)
    nearest = (min(max(mean, low), high) - mean) / std  # where the density is largest
    return chance > ((nearest**2 - ((tensor - mean) / std) ** 2) / 2).exp()


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with a constant.

    >>> import pullback as torch
    >>> torch.nn.init.constant_(torch.empty(2), 0.3)
    tensor([0.3000, 0.3000])
    """
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Ones.

    >>> import pullback as torch
    >>> torch.nn.init.ones_(torch.empty(2))
    tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros.

    >>> import pullback as torch
    >>> torch.nn.init.zeros_(torch.empty(2))
    tensor([0., 0.])
    """
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix, cut or padded to the shape.

    >>> import pullback as torch
    >>> torch.nn.init.eye_(torch.empty(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if tensor.ndim != 2:
        raise ValueError(f"eye_: a matrix is needed, got shape {tuple(tensor.shape)}.")
    with no_grad():
        tensor.zero_()
        tensor.diagonal().fill_(1)
    return tensor


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution that passes its channels on.

    >>> import pullback as torch
    >>> torch.nn.init.dirac_(torch.empty(1, 1, 3))
    tensor([[[0., 1., 0.]]])
    """
    if tensor.ndim not in (3, 4, 5):
        raise ValueError(f"dirac_: 3, 4 or 5 dimensions are needed, got {tuple(tensor.shape)}.")
    outputs = tensor.shape[0]
    if not isinstance(groups, int) or groups < 1:
        raise ValueError(f"dirac_: groups must be a positive int, got {groups!r}.")
    if outputs % groups:
        raise ValueError(f"dirac_: {outputs} channels cannot be cut into {groups} groups.")
    each = outputs // groups
    centre = tuple(size // 2 for size in tensor.shape[2:])
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(each, tensor.shape[1])):
                tensor[(group * each + channel, channel, *centre)] = 1
    return tensor


# What libraries that scale these functions build theirs from, under torch's inner names.
_no_grad_uniform_ = uniform_
_no_grad_normal_ = normal_
_no_grad_trunc_normal_ = trunc_normal_
_no_grad_fill_ = constant_
_no_grad_zero_ = zeros_


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    if tensor.ndim < 2:
        raise ValueError(
            f"Fan in and out need a tensor of 2 or more dimensions, got {tuple(tensor.shape)}."
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f'mode must be "fan_in" or "fan_out", got {mode!r}.')
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform random numbers with variance `2 / (fan_in + fan_out)`, by Glorot and Bengio.

    >>> import pullback as torch
    >>> bool(torch.nn.init.xavier_uniform_(torch.empty(3, 3)).abs().max() <= 1)
    True
    """
    bound = math.sqrt(3) * gain * math.sqrt(2 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal numbers with variance `2 / (fan_in + fan_out)`, by Glorot and Bengio.

    >>> import pullback as torch
    >>> torch.nn.init.xavier_normal_(torch.empty(4, 3)).shape
    torch.Size([4, 3])
    """
    std = gain * math.sqrt(2 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return normal_(tensor, 0.0, std, generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Uniform numbers with variance `gain**2 / fan`, by He et al.

    >>> import pullback as torch
    >>> bool(
    ...     torch.nn.init.kaiming_uniform_(torch.empty(4, 6), nonlinearity="relu").abs().max() <= 1
    ... )
    True
    """
    if 0 in tensor.shape:
        return _nothing_to_do(tensor)
    fan = _calculate_correct_fan(tensor, mode)
    bound = math.sqrt(3) * calculate_gain(nonlinearity, a) / math.sqrt(fan)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Normal numbers with variance `gain**2 / fan`, by He et al.

    >>> import pullback as torch
    >>> torch.nn.init.kaiming_normal_(torch.empty(4, 3), nonlinearity="relu").shape
    torch.Size([4, 3])
    """
    if 0 in tensor.shape:
        return _nothing_to_do(tensor)
    std = calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    return normal_(tensor, 0.0, std, generator)


def _nothing_to_do(tensor: Tensor) -> Tensor:
    warnings.warn(
        "There is nothing to initialise in a tensor without elements.",
        UserWarning,
        stacklevel=stacklevel(),
    )
    return tensor


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """A (semi-)orthogonal matrix, of the tensor seen as rows.

    >>> import pullback as torch
    >>> w = torch.nn.init.orthogonal_(torch.empty(3, 3))
    >>> torch.allclose(w @ w.T, torch.eye(3), atol=1e-5)
    True
    """
    if tensor.ndim < 2:
        raise ValueError(f"orthogonal_: 2 or more dimensions are needed, got {tensor.ndim}.")
    if tensor.numel() == 0:
        return tensor
    from pullback import linalg

    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    with no_grad():
        flat = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
        if rows < columns:
            flat = flat.t()
        q, r = linalg.qr(flat)
        q = q * r.diagonal().sign()  # so that the distribution is uniform
        if rows < columns:
            q = q.t()
        return tensor.copy_((q * gain).reshape(tensor.shape))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Normally, with a share of zeros in each column.

    >>> import pullback as torch
    >>> torch.nn.init.sparse_(torch.empty(4, 2), sparsity=0.5).eq(0).sum(0)
    tensor([2, 2])
    """
    if tensor.ndim != 2:
        raise ValueError(f"sparse_: a matrix is needed, got shape {tuple(tensor.shape)}.")
    from pullback.operators.random.tensors import randperm

    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[randperm(rows, generator=generator)[:zeros], column] = 0
    return tensor


def _old(new: Any) -> Any:
    """An initialiser under the name without an underscore, which torch had first."""
    name = new.__name__[:-1]

    @functools.wraps(new)
    def old(*args: Any, **kwargs: Any) -> Any:
        warn_of_old(f"nn.init.{name}", f"nn.init.{new.__name__}")
        return new(*args, **kwargs)

    old.__name__ = old.__qualname__ = name
    old.__doc__ = f"The old name of {new.__name__}."
    return old


uniform, normal, constant, eye, dirac = map(_old, (uniform_, normal_, constant_, eye_, dirac_))
xavier_uniform, xavier_normal = map(_old, (xavier_uniform_, xavier_normal_))
kaiming_uniform, kaiming_normal = map(_old, (kaiming_uniform_, kaiming_normal_))
orthogonal, sparse = map(_old, (orthogonal_, sparse_))
_guard_all(globals(), __all__)

__dir__ = _only_public(
    globals(),
    "constant dirac eye kaiming_normal kaiming_uniform normal orthogonal sparse uniform "
    "xavier_normal xavier_uniform ",
)
