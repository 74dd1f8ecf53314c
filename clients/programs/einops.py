"""einops: rearrange, reduce, repeat, einsum, pack, and layers in a small mixer."""

import torch
from einops import asnumpy, einsum, pack, parse_shape, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce

torch.manual_seed(0)
images = torch.randn(4, 3, 8, 12, requires_grad=True)
patches = rearrange(images, "b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4)
print(tuple(patches.shape), parse_shape(patches, "b n c"))
print(f"{reduce(images, 'b c (h 2) (w 2) -> b c h w', 'max').sum().item():.4f}")
print(tuple(repeat(images, "b c h w -> (r b) c (h x) w", r=2, x=3).shape))
print(tuple(rearrange([images, images], "n b c h w -> b (n c) h w").shape))
print(f"{einsum(patches, patches, 'b n c, b m c -> b n m').std().item():.4f}")
packed, shapes = pack([images[:, 0], images[:, :, 0, 0]], "b *")
print(tuple(packed.shape), [tuple(part.shape) for part in unpack(packed, shapes, "b *")])
print(asnumpy(reduce(images, "b c h w -> c", "mean")).round(4).tolist())

model = torch.nn.Sequential(
    Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4),
    EinMix("b n c -> b m c", weight_shape="n m", bias_shape="m", n=6, m=5),
    torch.nn.GELU(),
    EinMix("b n c -> b n d", weight_shape="c d", bias_shape="d", c=48, d=16),
    Reduce("b n d -> b d", "mean"),
    torch.nn.Linear(16, 3),
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(5):
    loss = torch.nn.functional.cross_entropy(model(images), torch.tensor([0, 1, 2, 0]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.4f}")
print(f"{images.grad.norm().item():.4f}")
