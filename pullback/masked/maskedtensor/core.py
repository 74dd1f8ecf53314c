"""`MaskedTensor`: data beside a mask that says which elements count.

It answers operators below autograd (see rules.py), so that gradients are masked tensors as well and
what the mask hides never enters a sum.
"""

from __future__ import annotations

import warnings
from typing import Any, TypeGuard

from pullback.autograd.function import Function
from pullback.autograd.grad_mode import is_grad_enabled
from pullback.core.dtype import bool_
from pullback.core.layout import sparse_coo, sparse_csr, strided
from pullback.core.listing import only_public as _only_public
from pullback.core.origin import stacklevel
from pullback.core.overriding import disabled_function
from pullback.core.tensor import Tensor
from pullback.masked.maskedtensor.printing import described

__all__ = ["MaskedTensor", "is_masked_tensor"]


def is_masked_tensor(obj: Any, /) -> TypeGuard[MaskedTensor]:
    """Whether an object is a tensor with a mask of its own.

    Example:
        >>> import pullback as torch
        >>> x = torch.masked.masked_tensor(torch.ones(2), torch.tensor([True, False]))
        >>> torch.masked.is_masked_tensor(x), torch.masked.is_masked_tensor(torch.ones(2))
        (True, False)
    """
    return isinstance(obj, MaskedTensor)


class MaskedTensor(Tensor):
    """Data, and a mask of the same shape: True where an element counts.

    Elementwise operators keep the mask, and two masked operands must agree in it. Reductions leave
    out what does not count; a result of nothing is masked itself. Shapes change for both.

    Example:
        >>> import pullback as torch
        >>> x = torch.masked.masked_tensor(
        ...     torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, False, True]), requires_grad=True
        ... )
        >>> x
        MaskedTensor(
          [  1.0000,       --,   3.0000]
        )
        >>> x.square().mean().backward()
        >>> x.grad.to_tensor(0)
        tensor([1., 0., 3.])
    """

    _masked_data: Tensor
    _masked_mask: Tensor

    @staticmethod
    def __new__(
        cls: type[MaskedTensor], data: Any, mask: Any, requires_grad: bool = False
    ) -> MaskedTensor:
        """A leaf on copies of data and mask."""
        _check(data, mask)
        return cls._of(data.detach().clone(), mask.detach().clone(), requires_grad=requires_grad)

    def __init__(self, data: Any, mask: Any, requires_grad: bool = False) -> None:
        """All is done when it is made."""

    @classmethod
    def _of(cls, data: Tensor, mask: Tensor, *, requires_grad: bool = False) -> MaskedTensor:
        """On these very tensors, which have no history."""
        made: Any = Tensor._make_wrapper_subclass(
            cls,
            data.size(),
            strides=None if _is_sparse(data) else data.stride(),
            dtype=data.dtype,
            device=data.device,
            layout=data.layout,
            requires_grad=requires_grad,
        )
        made._masked_data, made._masked_mask = data, mask
        whole: MaskedTensor = made
        return whole

    def get_data(self) -> Tensor:
        """The data, masked elements too; gradients pass.

        >>> import pullback as torch
        >>> mask = torch.tensor([True, False])
        >>> torch.masked.masked_tensor(torch.tensor([1.0, 2.0]), mask).get_data()
        tensor([1., 2.])
        """
        made: Tensor = _Data.apply(self)
        return made

    def get_mask(self) -> Tensor:
        """The mask.

        >>> import pullback as torch
        >>> torch.masked.masked_tensor(torch.ones(2), torch.tensor([True, False])).get_mask()
        tensor([ True, False])
        """
        return self._masked_mask

    def to_tensor(self, value: Any) -> Tensor:
        """The data, with `value` where elements do not count.

        >>> import pullback as torch
        >>> mask = torch.tensor([True, False])
        >>> torch.masked.masked_tensor(torch.tensor([1.0, 2.0]), mask).to_tensor(7)
        tensor([1., 7.])
        """
        data, mask = self.get_data(), self._masked_mask
        if _is_sparse(data):
            data, mask = data.to_dense(), mask.to_dense()
        filled: Tensor = data.masked_fill(~mask, value)
        return filled

    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> MaskedTensor:
        """The same with a dense layout; what is not specified does not count."""
        made: MaskedTensor = _Relaid.apply(self, strided)
        if dtype is None:
            return made
        cast: Any = made.to(dtype)
        converted: MaskedTensor = cast
        return converted

    def to_sparse_coo(self) -> MaskedTensor:
        """The same with a layout of coordinates: those of the elements that count.

        >>> import pullback as torch
        >>> mask = torch.tensor([True, False, True])
        >>> torch.masked.masked_tensor(torch.tensor([1.0, 2.0, 0.0]), mask).to_sparse()._masked_data
        tensor(indices=tensor([[0, 2]]),
               values=tensor([1., 0.]),
               size=(3,), nnz=2, layout=torch.sparse_coo)
        """
        made: MaskedTensor = self if self.is_sparse_coo() else _Relaid.apply(self, sparse_coo)
        return made

    def to_sparse(self) -> MaskedTensor:  # type: ignore[override]
        """As `to_sparse_coo`."""
        return self.to_sparse_coo()

    def to_sparse_csr(self) -> MaskedTensor:  # type: ignore[override]
        """The same with a layout of compressed rows, that of the elements that count."""
        made: MaskedTensor = self if self.is_sparse_csr() else _Relaid.apply(self, sparse_csr)
        return made

    def is_sparse_coo(self) -> bool:
        """Whether the data has the layout of coordinates."""
        return str(self.layout) == "torch.sparse_coo"

    def is_sparse_csr(self) -> bool:  # type: ignore[override]  # a method here, as in torch
        """Whether the data has the layout of compressed rows."""
        return str(self.layout) == "torch.sparse_csr"

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        data, mask = self._masked_data, self._masked_mask
        if _is_sparse(data):
            data, mask = data.to_dense(), mask.to_dense()
        return described(data.detach().numpy(), mask.numpy())

    def _with_mask(self, data: Tensor, mask: Tensor) -> MaskedTensor:
        """What was computed of plain data, with a mask; gradients come back plain."""
        made: MaskedTensor = _Wrapped.apply(data, mask)
        return made

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        from pullback.masked.maskedtensor.over_elements import FUNCTIONS, MOVES, moved

        name = getattr(func, "__name__", "")
        if name in FUNCTIONS:
            return FUNCTIONS[name](*args, **(kwargs or {}))
        if name in MOVES and is_grad_enabled() and (found := _recorded(args)) is not None:
            return moved(found, func, args, kwargs or {})
        return disabled_function(func, types, args, kwargs)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # it stands for "none" on Tensor
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        from pullback.masked.maskedtensor.rules import answer  # which loads every family

        return answer(func, args, kwargs or {})


def _recorded(args: Any) -> MaskedTensor | None:
    """A masked tensor among the arguments that has a history."""
    for one in args:
        if isinstance(one, list | tuple) and (found := _recorded(one)) is not None:
            return found
        if is_masked_tensor(one) and one.requires_grad:
            return one
    return None


def _is_sparse(data: Tensor) -> bool:
    return str(data.layout) != "torch.strided"


def _check(data: Any, mask: Any) -> None:
    _check_parts(data, mask)
    if data.requires_grad:
        warnings.warn(
            "It is not recommended to create a MaskedTensor with a tensor that requires_grad: its "
            "gradient ends here. Pass data.detach(), and requires_grad=True for the masked one.",
            UserWarning,
            stacklevel=stacklevel(),
        )


def _check_parts(data: Any, mask: Any) -> None:
    for name, value in (("data", data), ("mask", mask)):
        if not isinstance(value, Tensor) or is_masked_tensor(value):
            raise TypeError(
                f"masked_tensor: {name} must be a tensor without a mask, got "
                f"{type(value).__name__}."
            )
    if mask.dtype is not bool_:
        raise TypeError(f"masked_tensor: the mask must have dtype torch.bool, got {mask.dtype}.")
    if data.dtype.is_complex:
        raise TypeError(f"masked_tensor: data of dtype {data.dtype} is not taken, only real ones.")
    if data.layout is not mask.layout:
        raise TypeError(
            f"masked_tensor: data has layout {data.layout}, the mask {mask.layout}; both need the "
            "same."
        )
    if str(data.layout) not in _LAYOUTS:
        raise TypeError(
            f"masked_tensor: data of layout {data.layout} is not taken, only {', '.join(_LAYOUTS)}."
        )
    if data.shape != mask.shape:
        raise ValueError(
            f"masked_tensor: data has shape {tuple(data.shape)}, the mask {tuple(mask.shape)}; "
            "both need the same. Expand the smaller one."
        )

    # Where the mask has more elements or fewer, those of the data that it has are taken.
    if _is_sparse(data) and data._nnz() == mask._nnz() and _indices(data) != _indices(mask):
        raise ValueError(
            f"masked_tensor: data and mask of layout {data.layout} must have the same indices."
        )


_LAYOUTS = ("torch.strided", "torch.sparse_coo", "torch.sparse_csr")


def _indices(sparse: Any) -> list[Any]:
    if str(sparse.layout) == "torch.sparse_coo":
        found: list[Any] = sparse._indices().tolist()
        return found
    return [sparse.crow_indices().tolist(), sparse.col_indices().tolist()]


class _Data(Function):
    """The data of a masked tensor; the gradient gets its mask."""

    @staticmethod
    def forward(ctx: Any, input: MaskedTensor) -> Tensor:
        """A tensor on the same memory."""
        ctx.mask = input._masked_mask
        return input._masked_data.detach()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        """Masked as the input is."""
        return g if is_masked_tensor(g) else _Masked.apply(g, ctx.mask)


class _Relaid(Function):
    """A masked tensor in another layout; its gradient comes back in the first."""

    @staticmethod
    def forward(ctx: Any, input: MaskedTensor, layout: Any) -> MaskedTensor:
        """On data at the places of the mask."""
        ctx.layout = input.layout
        made = _relaid(input._masked_data, input._masked_mask, layout)
        ctx.mask = made._masked_mask
        return made

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        """The same back."""
        data, mask = (g._masked_data, g._masked_mask) if is_masked_tensor(g) else (g, ctx.mask)
        return _relaid(data, mask, ctx.layout), None


def _relaid(data: Tensor, mask: Tensor, layout: Any) -> MaskedTensor:
    if _is_sparse(data):
        data = data.to_dense()
    if _is_sparse(mask):
        mask = mask.to_dense()
    if layout is not strided:
        mask = mask.to_sparse(layout=layout)
        data = data.sparse_mask(mask)
    return MaskedTensor._of(data, mask)


class _Masked(Function):
    """A mask for data; the gradient keeps it."""

    @staticmethod
    def forward(ctx: Any, data: Tensor, mask: Tensor) -> MaskedTensor:
        """A masked tensor on copies."""
        _check_parts(data, mask)
        return MaskedTensor._of(data.detach().clone(), mask.clone())

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        """As it comes: what does not count has no gradient, not one of zero."""
        return g, None


class _Wrapped(_Masked):
    """The same for results of plain data, whose graph wants plain gradients."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        """Zeros where nothing counts."""
        return g.to_tensor(0) if is_masked_tensor(g) else g, None


def _tensors_match(
    a: Any, b: Any, exact: bool = True, rtol: float = 1e-05, atol: float = 1e-08
) -> bool:
    """Whether two tensors of one layout have the same elements, or nearly so."""
    if a.layout != b.layout:
        raise ValueError(f"The tensors differ in layout: {a.layout} and {b.layout}.")
    if a.dtype != b.dtype:
        b = b.type(a.dtype)
    if a.shape != b.shape:
        return False
    if a.layout is not strided:
        a, b = a.to_dense(), b.to_dense()
    return bool(a.equal(b) if exact else a.allclose(b, rtol=rtol, atol=atol))


def _masks_match(a: Any, b: Any) -> bool:
    """Whether two masked tensors have one mask; True where one of them has none."""
    if not (is_masked_tensor(a) and is_masked_tensor(b)):
        return True
    return _tensors_match(a._masked_mask, b._masked_mask, exact=True)


__dir__ = _only_public(globals())
