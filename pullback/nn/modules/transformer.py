"""Transformer layers and stacks of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn import init
from pullback.nn.modules.attention import MultiheadAttention
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


def _activation(given: Activation) -> Callable[[Tensor], Tensor]:
    if given == "relu":
        return F.relu
    if given == "gelu":
        return F.gelu
    if isinstance(given, str):
        raise RuntimeError(  # noqa: TRY004 (torch's type)
            f'activation must be "relu", "gelu" or a function, got {given!r}.'
        )
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
        self.activation = _activation(activation)

    _sublayers = 2

    def _make_inner(self, d_model: int, nhead: int, attention: dict[str, Any]) -> None:
        """Parts that come between the two, in the order of torch's."""

    def _sublayer(self, number: int, x: Tensor, apply: Callable[[Tensor], Tensor]) -> Tensor:
        """`x` plus what `apply` makes of it, normalised before or after."""
        norm, dropout = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
        if self.norm_first:
            return x + dropout(apply(norm(x)))
        return norm(x + dropout(apply(x)))

    def _attend(
        self, x: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool
    ) -> Tensor:
        out: Tensor = self.self_attn(
            x,
            x,
            x,
            attn_mask=mask,
            key_padding_mask=padding,
            need_weights=False,
            is_causal=is_causal,
        )[0]
        return out

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Block):
    """Attention to oneself, then a feed-forward part.

    >>> import pullback as torch
    >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> layer(torch.zeros(3, 5, 8)).shape
    torch.Size([3, 5, 8])
    """

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Any:
        """Apply it."""

        def attend(x: Tensor) -> Tensor:
            return self._attend(x, src_mask, src_key_padding_mask, is_causal)

        return self._sublayer(2, self._sublayer(1, src, attend), self._feed_forward)


class TransformerDecoderLayer(_Block):
    """Attention to oneself, to a memory, then a feed-forward part."""

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
            return self._attend(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal)

        def remember(x: Tensor) -> Tensor:
            out: Tensor = self.multihead_attn(
                x,
                memory,
                memory,
                attn_mask=memory_mask,
                key_padding_mask=memory_key_padding_mask,
                need_weights=False,
                is_causal=memory_is_causal,
            )[0]
            return out

        x = self._sublayer(2, self._sublayer(1, tgt, attend), remember)
        return self._sublayer(3, x, self._feed_forward)


def _copies(layer: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])


class TransformerEncoder(Module):
    """Copies of an encoder layer, one after another."""

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Any:
        """Apply all of them."""
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, bool(is_causal))
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """Copies of a decoder layer, one after another."""

    def __init__(
        self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None
    ) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
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
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask,
                memory_mask,
                tgt_key_padding_mask,
                memory_key_padding_mask,
                bool(tgt_is_causal),
                memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder, and a decoder that attends to what it gives."""

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
        return triu(full((sz, sz), float("-inf"), device=device, dtype=dtype), 1)

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
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask,
            memory_mask,
            tgt_key_padding_mask,
            memory_key_padding_mask,
            tgt_is_causal,
            memory_is_causal,
        )
