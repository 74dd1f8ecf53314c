"""Transformer layers and stacks of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from pullback.autograd.grad_mode import is_grad_enabled
from pullback.core.dtype import DTYPES
from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn import init
from pullback.nn.layers.attention import MultiheadAttention
from pullback.nn.modules.activation import GELU, ReLU
from pullback.nn.modules.container import ModuleList
from pullback.nn.modules.dropout import Dropout
from pullback.nn.modules.linear import Linear
from pullback.nn.modules.module import Module
from pullback.nn.modules.normalization import LayerNorm
from pullback.operators.create.sizes import full
from pullback.operators.indexing.selection import triu

__all__ = [
    *("Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder"),
    "TransformerEncoderLayer",
]

Activation = str | Callable[[Tensor], Tensor]


def _get_activation_fn(given: Activation) -> Callable[[Tensor], Tensor]:
    if given == "relu":
        return F.relu
    if given == "gelu":
        return F.gelu
    if isinstance(given, str):
        raise RuntimeError(f'activation must be "relu", "gelu" or a function, got {given!r}.')
    return given


class _Block(Module):
    """Attention to oneself and a feed-forward part, which both kinds of layers have."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        made: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        attention: dict[str, Any] = {"dropout": dropout, "batch_first": batch_first, **made}
        self.self_attn = MultiheadAttention(d_model, nhead, **attention)
        self._make_inner(d_model, nhead, attention)
        self.linear1 = Linear(d_model, dim_feedforward, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **made)
        self.norm_first = norm_first
        parts = range(1, self._sublayers + 1)
        for number in parts:
            setattr(self, f"norm{number}", LayerNorm(d_model, eps=layer_norm_eps, **made))
        for number in parts:
            setattr(self, f"dropout{number}", Dropout(dropout))
        self.activation = _get_activation_fn(activation)

    _sublayers = 2

    def _make_inner(self, d_model: int, nhead: int, attention: dict[str, Any]) -> None:
        """Parts that come between the two, in the order of torch's."""

    def _sublayer(self, number: int, x: Tensor, apply: Callable[[Tensor], Tensor]) -> Tensor:
        """`x` plus what `apply` makes of it, normalised before or after."""
        norm = getattr(self, f"norm{number}")
        if self.norm_first:
            return x + apply(norm(x))
        made: Tensor = norm(x + apply(x))
        return made

    def _sa_block(
        self,
        x: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        """Attention to oneself, and dropout."""
        out: Tensor = self.self_attn(
            x,
            x,
            x,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            need_weights=False,
            is_causal=is_causal,
        )[0]
        dropped: Tensor = self.dropout1(out)
        return dropped

    def _ff_block(self, x: Tensor) -> Tensor:
        """The feed-forward part, and dropout."""
        out = self.linear2(self.dropout(self.activation(self.linear1(x))))
        dropped: Tensor = getattr(self, f"dropout{self._sublayers}")(out)
        return dropped


class TransformerEncoderLayer(_Block):
    """Self-attention, then two linear layers, each with dropout, a residual and a layer norm.

    `x = norm1(x + attention(x))`, then `x = norm2(x + linear2(activation(linear1(x))))`; with
    `norm_first`, `x = x + attention(norm1(x))` and `x = x +
    linear2(activation(linear1(norm2(x))))`.

    Args:
        d_model: Features of input and output.
        nhead: Number of attention heads; must divide `d_model`.
        dim_feedforward: Features between the two linear layers.
        dropout: Probability of zeroing an element, in all places.
        activation: "relu", "gelu" or a callable.
        layer_norm_eps: `eps` of the layer norms.
        batch_first: Whether tensors are (N, L, features), not (L, N, features).
        norm_first: Whether to normalise before each part (pre-norm), which trains more stably.
        bias: Whether linear layers and layer norms have biases.
        device, dtype: Device and data type of the parameters.

    Shape:
        Input: (L, N, d_model), or (L, d_model) without a batch. Output: that of the input.

    >>> import pullback as torch
    >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> layer(torch.zeros(3, 5, 8)).shape
    torch.Size([3, 5, 8])
    """

    @property
    def activation_relu_or_gelu(self) -> int:
        """1 for relu, 2 for gelu, 0 for any other."""
        for number, (function, kind) in enumerate(((F.relu, ReLU), (F.gelu, GELU)), 1):
            if self.activation is function or isinstance(self.activation, kind):
                return number
        return 0

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Any:
        """Apply it."""

        def attend(x: Tensor) -> Tensor:
            return self._sa_block(x, src_mask, src_key_padding_mask, is_causal)

        return self._sublayer(2, self._sublayer(1, src, attend), self._ff_block)


class TransformerDecoderLayer(_Block):
    """Self-attention, cross-attention to the encoder's output, then two linear layers.

    >>> import pullback as torch
    >>> layer = torch.nn.TransformerDecoderLayer(8, 2, dim_feedforward=16)
    >>> layer(torch.randn(3, 1, 8), torch.randn(5, 1, 8)).shape
    torch.Size([3, 1, 8])
    """

    _sublayers = 3

    def _make_inner(self, d_model: int, nhead: int, attention: dict[str, Any]) -> None:
        self.multihead_attn = MultiheadAttention(d_model, nhead, **attention)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Any:
        """Apply it."""

        def attend(x: Tensor) -> Tensor:
            return self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal)

        def remember(x: Tensor) -> Tensor:
            return self._mha_block(
                x, memory, memory_mask, memory_key_padding_mask, memory_is_causal
            )

        x = self._sublayer(2, self._sublayer(1, tgt, attend), remember)
        return self._sublayer(3, x, self._ff_block)

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        """Attention to the memory, and dropout."""
        out: Tensor = self.multihead_attn(
            x,
            mem,
            mem,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            need_weights=False,
            is_causal=is_causal,
        )[0]
        dropped: Tensor = self.dropout2(out)
        return dropped


def _get_seq_len(src: Tensor, batch_first: bool) -> int:
    """How long the sequences are."""
    return src.shape[1 if batch_first and src.ndim == 3 else 0]


def _detect_is_causal_mask(
    mask: Tensor | None, is_causal: bool | None = None, size: int | None = None
) -> bool:
    """Whether a mask is causal: as it is said, or else as it looks."""
    if is_causal is not None or mask is None:
        return bool(is_causal)
    length = mask.shape[-2] if size is None else size
    wanted = _generate_square_subsequent_mask(length, device=mask.device, dtype=mask.dtype)
    same: Any = tuple(mask.shape) == tuple(wanted.shape) and mask == wanted
    return bool(same is not False and same.all())


def _generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
    return triu(full((sz, sz), float("-inf"), device=device, dtype=dtype), 1)


def _get_clones(layer: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])


def _is_plain(layer: Any) -> bool:
    """Whether torch would run a layer by its one fast kernel, which can leave padding out."""
    return bool(
        isinstance(layer, TransformerEncoderLayer)
        and not layer.norm_first
        and layer.self_attn.batch_first
        and layer.self_attn._qkv_same_embed_dim
        and layer.self_attn.in_proj_bias is not None
        and layer.activation_relu_or_gelu
        and layer.norm1.eps == layer.norm2.eps
        and layer.self_attn.num_heads % 2 == 0
    )


class TransformerEncoder(Module):
    """A stack of encoder layers.

    >>> import pullback as torch
    >>> layer = torch.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True)
    >>> torch.nn.TransformerEncoder(layer, num_layers=2)(torch.randn(1, 5, 8)).shape
    torch.Size([1, 5, 8])
    """

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = enable_nested_tensor and _is_plain(encoder_layer)
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Any:
        """Apply all of them."""
        hidden = self._left_out(src, mask, src_key_padding_mask)
        if is_causal is None and mask is not None and self.layers:
            first_batch = getattr(self.layers[0].self_attn, "batch_first", False)
            is_causal = _detect_is_causal_mask(mask, None, _get_seq_len(src, first_batch))
        for layer in self.layers:
            src = layer(
                src,
                src_mask=mask,
                is_causal=bool(is_causal),
                src_key_padding_mask=src_key_padding_mask,
            )
        if hidden is not None:
            src = src.masked_fill(hidden.unsqueeze(-1), 0.0)
        return src if self.norm is None else self.norm(src)

    def _left_out(self, src: Tensor, mask: Any, padding: Any) -> Any:
        """Places whose results are zero: padding at the end, where torch leaves it out.

        It does so in evaluation, without gradients and other masks.
        """
        if not self.use_nested_tensor or self.training or src.ndim != 3:
            return None
        if padding is None or mask is not None or padding.dtype is not DTYPES["bool"]:
            return None
        tracked = src.requires_grad or any(one.requires_grad for one in self.layers.parameters())
        if is_grad_enabled() and tracked:
            return None
        at_end = not bool((padding[:, :-1] & ~padding[:, 1:]).any())
        return padding if at_end and not bool(padding[:, :1].any()) else None


class TransformerDecoder(Module):
    """A stack of decoder layers.

    >>> import pullback as torch
    >>> layer = torch.nn.TransformerDecoderLayer(8, 2, dim_feedforward=16)
    >>> decoder = torch.nn.TransformerDecoder(layer, num_layers=2)
    >>> decoder(torch.randn(3, 1, 8), torch.randn(5, 1, 8)).shape
    torch.Size([3, 1, 8])
    """

    def __init__(
        self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None
    ) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        """Apply all of them."""
        if tgt_is_causal is None and tgt_mask is not None and self.layers:
            first_batch = getattr(self.layers[0].self_attn, "batch_first", False)
            tgt_is_causal = _detect_is_causal_mask(tgt_mask, None, _get_seq_len(tgt, first_batch))
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder, and a decoder that attends to the encoder's output.

    >>> import pullback as torch
    >>> model = torch.nn.Transformer(d_model=8, nhead=2, num_encoder_layers=1, num_decoder_layers=1)
    >>> model(torch.randn(5, 1, 8), torch.randn(3, 1, 8)).shape
    torch.Size([3, 1, 8])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        made: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        options: dict[str, Any] = {
            "dim_feedforward": dim_feedforward,
            "dropout": dropout,
            "activation": activation,
            "layer_norm_eps": layer_norm_eps,
            "batch_first": batch_first,
            "norm_first": norm_first,
            **made,
        }
        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(d_model, nhead, **options),
            num_encoder_layers,
            LayerNorm(d_model, eps=layer_norm_eps, **made),
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(d_model, nhead, **options),
            num_decoder_layers,
            LayerNorm(d_model, eps=layer_norm_eps, **made),
        )
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """A mask by which each place sees itself and those before."""
        return _generate_square_subsequent_mask(sz, device, dtype)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        """What the decoder makes of the target, given what the encoder made of the source."""
        self._check(src, tgt)
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    def _check(self, src: Tensor, tgt: Tensor) -> None:
        batch = 0 if self.batch_first else 1
        if src.ndim == 3 and src.shape[batch] != tgt.shape[batch]:
            raise RuntimeError(
                f"Transformer: src and tgt must have one batch size, got {src.shape[batch]} and "
                f"{tgt.shape[batch]}."
            )
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError(
                f"Transformer: {self.d_model} features are needed, got {src.shape[-1]} and "
                f"{tgt.shape[-1]}."
            )
