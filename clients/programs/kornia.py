"""kornia: filters, colours, geometry, morphology and a loss, with gradients to the picture."""

import kornia
import torch

torch.manual_seed(0)
picture = torch.rand(1, 3, 16, 16, requires_grad=True)
for name, made in {
    "blur": kornia.filters.gaussian_blur2d(picture, (3, 3), (1.5, 1.5)),
    "sobel": kornia.filters.sobel(picture),
    "hsv": kornia.color.rgb_to_hsv(picture),
    "lab": kornia.color.rgb_to_lab(picture),
    "harris": kornia.feature.harris_response(picture),
    "dilation": kornia.morphology.dilation(picture, torch.ones(3, 3)),
    "warp": kornia.geometry.warp_perspective(picture, torch.eye(3)[None] * 1.0, (16, 16)),
    "rotate": kornia.geometry.rotate(picture, torch.tensor([30.0])),
}.items():
    (slope,) = torch.autograd.grad(made.mean(), picture)
    print(f"{name} {tuple(made.shape)} {made.mean().item():.4f} {slope.abs().sum().item():.3f}")
turn = kornia.geometry.axis_angle_to_rotation_matrix(torch.tensor([[0.1, 0.2, 0.3]]))
print(turn.numpy().round(4).tolist())
kornia.losses.ssim_loss(picture, picture.detach() * 0.9, 5).backward()
print(f"ssim {picture.grad.abs().sum().item():.4f}")
