"""x-transformers: a decoder trained and sampled, an encoder, an encoder-decoder, a vision model."""

import torch
from x_transformers import (
    AutoregressiveWrapper,
    ContinuousTransformerWrapper,
    Decoder,
    Encoder,
    TransformerWrapper,
    ViTransformerWrapper,
    XTransformer,
)

torch.manual_seed(0)
model = AutoregressiveWrapper(
    TransformerWrapper(
        num_tokens=20,
        max_seq_len=16,
        attn_layers=Decoder(dim=16, depth=2, heads=2, attn_dim_head=8, rotary_pos_emb=True),
    )
)
tokens = torch.randint(0, 20, (3, 12))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(4):
    optimizer.zero_grad()
    loss = model(tokens)
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.4f}")
print(model.generate(tokens[:1, :4], 5, temperature=0.0).tolist())

for options in (
    {"ff_glu": True, "use_rmsnorm": True},
    {"alibi_pos_bias": True, "attn_kv_heads": 1},
    {"rel_pos_bias": True, "attn_num_mem_kv": 2},
    {"attn_qk_norm": True, "ff_swish": True, "sandwich_norm": True},
    {"attn_flash": True},
    {"attn_pre_talking_heads": True, "residual_attn": True},
    {"macaron": True, "gate_residual": True},
):
    torch.manual_seed(0)
    net = TransformerWrapper(
        num_tokens=20, max_seq_len=16, attn_layers=Encoder(dim=16, depth=1, heads=2, attn_dim_head=8, **options)
    )  # fmt: skip
    out = net(tokens, mask=torch.ones(3, 12, dtype=torch.bool))
    out.square().mean().backward()
    print(sorted(options), tuple(out.shape), f"{out.std().item():.4f}")

torch.manual_seed(0)
pair = XTransformer(
    dim=16, enc_num_tokens=20, enc_depth=1, enc_heads=2, enc_max_seq_len=12,
    dec_num_tokens=20, dec_depth=1, dec_heads=2, dec_max_seq_len=12,
)  # fmt: skip
print(f"{pair(tokens, tokens, mask=torch.ones_like(tokens).bool()).item():.4f}")
vision = ViTransformerWrapper(
    image_size=16, patch_size=8, num_classes=5, attn_layers=Encoder(dim=16, depth=1, heads=2)
)
print(f"{vision(torch.randn(2, 3, 16, 16)).sum().item():.4f}")
continuous = ContinuousTransformerWrapper(
    dim_in=4, dim_out=3, max_seq_len=16, attn_layers=Encoder(dim=16, depth=1, heads=2)
)
print(f"{continuous(torch.randn(2, 8, 4)).sum().item():.4f}")
