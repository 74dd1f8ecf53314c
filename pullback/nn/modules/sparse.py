"""Tables of vectors that are looked up by number."""

from __future__ import annotations

from typing import Any

from pullback.autograd.grad_mode import no_grad
from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn import init
from pullback.nn.modules.module import Module
from pullback.nn.parameter import Parameter
from pullback.operators.create.sizes import empty

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """A matrix of one row for each number."""

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None
    max_norm: float | None
    norm_type: float
    scale_grad_by_freq: bool
    weight: Parameter

    def _make(self, given: Tensor | None, device: Any, dtype: Any, *, frozen: bool = False) -> None:
        count, width, padding = self.num_embeddings, self.embedding_dim, self.padding_idx
        if padding is not None:
            if not -count <= padding < count:
                raise AssertionError(
                    f"{type(self).__name__}: padding_idx {padding} is not within {count} rows."
                )
            self.padding_idx = padding % count
        if given is None:
            made = empty((count, width), device=device, dtype=dtype)
            self.weight = Parameter(made, requires_grad=not frozen)
            self.reset_parameters()
            return
        if tuple(given.shape) != (count, width):
            raise AssertionError(
                f"{type(self).__name__}: weights of shape {tuple(given.shape)} do not fit {count} "
                f"rows of {width}."
            )
        self.weight = Parameter(given, requires_grad=not frozen)

    def _shown(self, padding: str = "") -> str:
        """The sizes, and what differs from the defaults."""
        shown = f"{self.num_embeddings}, {self.embedding_dim}{padding}"
        if self.max_norm is not None:
            shown += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            shown += f", norm_type={self.norm_type}"
        return shown + (", scale_grad_by_freq=True" if self.scale_grad_by_freq else "")

    def reset_parameters(self) -> None:
        """Draw the rows anew; the padding is zero."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)


class Embedding(_Table):
    """Look up a learned vector for each index: row `i` of `weight` for index `i`.

    It computes what a linear layer does on one-hot vectors, without materializing them. Rows are
    initialized from a normal distribution with mean 0 and standard deviation 1.

    Args:
        num_embeddings: Number of rows; indices lie in 0 to `num_embeddings - 1`.
        embedding_dim: Size of each vector.
        padding_idx: Index whose row starts as zeros and gets no gradient, for padding.
        max_norm: Rows looked up whose norm is larger are scaled down to it, in place.
        norm_type: Which p-norm `max_norm` means.
        scale_grad_by_freq: Whether to divide a row's gradient by how often it occurs in the batch.
        sparse: Whether the gradient of the table is sparse; few optimizers take that.
        device, dtype: Device and data type of the table.

    Shape:
        Input: (*), integers. Output: (*, embedding_dim).
        weight: (num_embeddings, embedding_dim).

    >>> import pullback as torch
    >>> torch.nn.Embedding(10, 3)(torch.tensor([[1, 2], [4, 5]])).shape
    torch.Size([2, 2, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        self._make(_weight, device, dtype, frozen=_freeze)

    def forward(self, input: Tensor) -> Any:
        """The rows of these numbers."""
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        """The sizes, and what differs from the defaults."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return self._shown(padding) + (", sparse=True" if self.sparse else "")

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """A table of given rows, frozen unless told otherwise."""
        rows, width = _of_matrix(embeddings)
        return cls(
            rows,
            width,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            embeddings,
            freeze,
        )


def _of_matrix(embeddings: Tensor) -> tuple[int, int]:
    if embeddings.ndim != 2:
        raise AssertionError(
            f"from_pretrained: a matrix is needed, got shape {tuple(embeddings.shape)}."
        )
    rows, width = embeddings.shape
    return rows, width


class EmbeddingBag(_Table):
    """Sum, mean or maximum over bags of embedding vectors.

    >>> import pullback as torch
    >>> bag = torch.nn.EmbeddingBag.from_pretrained(torch.tensor([[1.0], [3.0]]), mode="mean")
    >>> bag(torch.tensor([[0, 1]]))
    tensor([[2.]])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        self.padding_idx = padding_idx
        self._make(_weight, device, dtype)

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Any:
        """One vector for each bag."""
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        """The sizes and the mode."""
        shown = f"{self._shown()}, mode={self.mode!r}"
        return shown if self.padding_idx is None else f"{shown}, padding_idx={self.padding_idx}"

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """A table of given rows, frozen unless told otherwise."""
        rows, width = _of_matrix(embeddings)
        made = cls(
            rows,
            width,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        made.weight.requires_grad = not freeze
        return made
