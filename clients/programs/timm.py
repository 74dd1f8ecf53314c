"""timm: five networks for pictures, a step of an optimizer of its own, and a schedule."""

from clients import _vision  # noqa: F401 (timm imports torchvision for its transforms)

# isort: split
import timm
import timm.optim
import timm.scheduler
import torch

for name in (
    "resnet10t",
    "mobilenetv3_small_050",
    "vit_tiny_patch16_224",
    "convnext_atto",
    "efficientnet_lite0",
):
    torch.manual_seed(0)
    size = {"img_size": 32} if name.startswith("vit") else {}
    model = timm.create_model(name, num_classes=5, **size)
    optimizer = timm.optim.create_optimizer_v2(model, opt="lamb", lr=1e-2)
    schedule = timm.scheduler.CosineLRScheduler(optimizer, t_initial=4)
    pictures, losses = torch.randn(2, 3, 32, 32), []
    for step in range(2):
        loss = torch.nn.functional.cross_entropy(model.eval()(pictures), torch.tensor([1, 3]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step(step)
        losses.append(f"{loss.item():.4f}")
    print(name, losses, sum(p.numel() for p in model.parameters()))
