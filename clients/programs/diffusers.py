"""diffusers: a small U-Net learns to take noise away, and a sampler uses it."""

from clients import _vision  # noqa: F401 (transformers imports torchvision where it is installed)

# isort: split
import torch
from diffusers import DDIMScheduler, DDPMScheduler, UNet2DModel

torch.manual_seed(0)
unet = UNet2DModel(
    sample_size=8,
    in_channels=1,
    out_channels=1,
    layers_per_block=1,
    block_out_channels=(8, 16),
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    norm_num_groups=4,
)
images, scheduler = torch.randn(4, 1, 8, 8), DDPMScheduler(num_train_timesteps=20)
optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-3)
for _ in range(4):
    noise, times = torch.randn_like(images), torch.randint(0, 20, (4,))
    guess = unet(scheduler.add_noise(images, noise, times), times).sample
    loss = torch.nn.functional.mse_loss(guess, noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.4f}")
sampler = DDIMScheduler(num_train_timesteps=20)
sampler.set_timesteps(4)
sample = torch.randn(1, 1, 8, 8)
with torch.no_grad():
    for time in sampler.timesteps:
        sample = sampler.step(unet(sample, time).sample, time, sample).prev_sample
print(f"sample {sample.mean().item():.4f} {sample.std().item():.4f}")
