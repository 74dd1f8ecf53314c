"""vit-pytorch: several vision transformers, two steps of training each."""

from clients import _vision  # noqa: F401 (vit-pytorch imports torchvision for its transforms)

# isort: split
import torch
from vit_pytorch import SimpleViT, ViT
from vit_pytorch.cait import CaiT
from vit_pytorch.cct import CCT
from vit_pytorch.cross_vit import CrossViT
from vit_pytorch.deepvit import DeepViT
from vit_pytorch.pit import PiT
from vit_pytorch.t2t import T2TViT

torch.manual_seed(0)
images, labels = torch.randn(2, 3, 32, 32), torch.tensor([0, 3])
small = {"image_size": 32, "num_classes": 5, "dim": 16, "depth": 1, "heads": 2, "mlp_dim": 24}
for name, make in {
    "ViT": lambda: ViT(patch_size=8, dropout=0.1, emb_dropout=0.1, **small),
    "SimpleViT": lambda: SimpleViT(patch_size=8, **small),
    "DeepViT": lambda: DeepViT(patch_size=8, **small),
    "CaiT": lambda: CaiT(patch_size=8, cls_depth=1, **small),
    "PiT": lambda: PiT(patch_size=8, **{**small, "depth": (1, 1)}),
    "CCT": lambda: CCT(img_size=32, embedding_dim=16, n_conv_layers=1, kernel_size=3, stride=2, padding=1,
                       pooling_kernel_size=3, pooling_stride=2, pooling_padding=1, num_layers=1,
                       num_heads=2, mlp_ratio=2.0, num_classes=5, positional_embedding="learnable"),
    "CrossViT": lambda: CrossViT(image_size=32, num_classes=5, sm_dim=16, lg_dim=24, sm_patch_size=8,
                                 lg_patch_size=16, sm_enc_depth=1, sm_enc_heads=2, sm_enc_mlp_dim=16,
                                 lg_enc_depth=1, lg_enc_heads=2, lg_enc_mlp_dim=16, depth=1,
                                 cross_attn_depth=1, cross_attn_heads=2, sm_enc_dim_head=8,
                                 lg_enc_dim_head=8, cross_attn_dim_head=8),
    "T2TViT": lambda: T2TViT(t2t_layers=((7, 4), (3, 2)), **small),
}.items():  # fmt: skip
    torch.manual_seed(1)
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4f}")
    print(name, losses)
