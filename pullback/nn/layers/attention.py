"""Attention with several heads."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn import init
from pullback.nn.base.weights import parameter_table, weight_and_bias
from pullback.nn.modules.linear import NonDynamicallyQuantizableLinear
from pullback.nn.modules.module import Module
from pullback.nn.parameter import Parameter
from pullback.operators.create.sizes import empty

__all__ = ["MultiheadAttention"]

_ORDER = (
    *("in_proj_weight", "in_proj_bias", "bias_k", "bias_v"),
    *("q_proj_weight", "k_proj_weight", "v_proj_weight"),
)
_NAMES = frozenset(_ORDER)


class MultiheadAttention(Module):
    """Attend to a sequence with several heads, each on a learned projection of its own.

    For each head `softmax(Q @ K.T / sqrt(head_dim)) @ V`; the heads are concatenated and projected
    once more. `Q`, `K`, `V` are linear maps of query, key and value.

    Called with `query, key, value`, and by keyword `key_padding_mask` (True at keys to leave out),
    `attn_mask` (a boolean mask, True where a query may not look, or numbers added to the scores),
    `is_causal`, `need_weights`, `average_attn_weights`. Returns the output and the attention
    weights, None for those with `need_weights=False`, which is faster.

    Args:
        embed_dim: Features of query and output; `num_heads` must divide it.
        num_heads: Number of heads, of `embed_dim / num_heads` features each.
        dropout: Probability of zeroing an attention weight in training.
        bias: Whether the projections have biases.
        add_bias_kv: Whether to append a learned key and value to each sequence.
        add_zero_attn: Whether to append a key and value of zeros to each sequence.
        kdim: Features of the keys; `embed_dim` if not given.
        vdim: Features of the values; `embed_dim` if not given.
        batch_first: Whether tensors are (N, L, features), not (L, N, features).
        device, dtype: Device and data type of the parameters.

    Shape:
        query: (L, N, embed_dim); key: (S, N, kdim); value: (S, N, vdim).
        Output: (L, N, embed_dim).
        Weights: (N, L, S), or (N, num_heads, L, S) with `average_attn_weights=False`.

    >>> import pullback as torch
    >>> attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = torch.zeros(3, 5, 8)
    >>> out, weights = attention(x, x, x)
    >>> out.shape, weights.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 5, 5]))
    """

    in_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"MultiheadAttention: embed_dim and num_heads must be positive, got {embed_dim} "
                f"and {num_heads}."
            )
        if embed_dim % num_heads:
            raise AssertionError(
                f"MultiheadAttention: embed_dim {embed_dim} must be divisible by num_heads "
                f"{num_heads}."
            )
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        self.add_zero_attn = add_zero_attn
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self._make_projections(bias=bias, **made)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **made)
        for name in ("bias_k", "bias_v"):
            value = Parameter(empty((1, 1, embed_dim), **made)) if add_bias_kv else None
            self.register_parameter(name, value)
        self._reset_parameters()

    def _make_projections(self, *, bias: bool, **made: Any) -> None:
        width = self.embed_dim
        widths = {"q_proj_weight": width, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        together = self._qkv_same_embed_dim
        for name, inputs in widths.items():
            value = None if together else Parameter(empty((width, inputs), **made))
            self.register_parameter(name, value)
        joint = Parameter(empty((3 * width, width), **made)) if together else None
        self.register_parameter("in_proj_weight", joint)
        self.register_parameter(
            "in_proj_bias", Parameter(empty((3 * width,), **made)) if bias else None
        )

    def _reset_parameters(self) -> None:
        weights = (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        for weight in weights:
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            assert self.out_proj.bias is not None
            init.zeros_(self.out_proj.bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def _of_nested(self, query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool) -> Tensor:
        """Attention of each component of a batch of sequences that differ in length."""
        if is_causal or not self.batch_first:
            raise RuntimeError(
                "MultiheadAttention: of nested tensors it takes those with batch_first=True, "
                "without is_causal."
            )
        from pullback.operators.nested.create import as_nested_tensor  # which few need

        parts = zip(query.unbind(), key.unbind(), value.unbind(), strict=True)
        made = [
            self.forward(q[None], k[None], v[None], need_weights=False)[0][0] for q, k, v in parts
        ]
        return as_nested_tensor(made, layout=query.layout)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The result, and the weights or None."""
        if query.is_nested:
            if need_weights or key_padding_mask is not None or attn_mask is not None:
                raise RuntimeError(
                    "MultiheadAttention: of nested tensors it takes no masks and gives no weights; "
                    "pass need_weights=False, or to_padded_tensor() and key_padding_mask."
                )
            return self._of_nested(query, key, value, is_causal=is_causal), None
        swapped = self.batch_first and query.ndim == 3
        if swapped and query is key is value:
            query = key = value = query.transpose(0, 1)
        elif swapped:
            query, key, value = (one.transpose(0, 1) for one in (query, key, value))
        table = parameter_table(self, _NAMES)
        into, into_bias, bias_k, bias_v, of_query, of_key, of_value = [
            table[name] if name in table else getattr(self, name) for name in _ORDER
        ]
        out_weight, out_bias = weight_and_bias(self.out_proj)
        out, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            into,
            into_bias,
            bias_k,
            bias_v,
            self.add_zero_attn,
            self.dropout,
            out_weight,
            out_bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=of_query,
            k_proj_weight=of_key,
            v_proj_weight=of_value,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (out.transpose(0, 1) if swapped else out), weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Both masks as one, and its kind: 1 of keys alone, 2 of pairs, None where there is none.

        That of pairs is (batch, heads, queries, keys).
        """
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length = query.shape[:2]
        if attn_mask.ndim == 3:
            pairs = attn_mask.view(batch, -1, length, length)
        else:
            pairs = attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            keys = key_padding_mask.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1)
            pairs = pairs + keys
        return pairs, 2
