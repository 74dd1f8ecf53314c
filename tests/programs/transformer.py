"""A transformer that reverses sequences: warm-up and cosine schedules, autocast, a grad scaler."""

import math

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

torch.manual_seed(0)
LETTERS, LENGTH, WIDTH = 8, 5, 24


class Positions(nn.Module):
    def __init__(self, width, longest=16):
        super().__init__()
        place = torch.arange(longest).unsqueeze(1)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(100.0) / width))
        table = torch.zeros(longest, width)
        table[:, 0::2] = torch.sin(place * rate)
        table[:, 1::2] = torch.cos(place * rate)
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table[: x.size(1)]


class Reverser(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(LETTERS + 1, WIDTH)
        self.positions = Positions(WIDTH)
        self.transformer = nn.Transformer(
            WIDTH, nhead=4, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=48,
            dropout=0.0, activation="gelu", batch_first=True,
        )  # fmt: skip
        self.head = nn.Linear(WIDTH, LETTERS + 1)

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.size(1))
        out = self.transformer(
            self.positions(self.embedding(source)),
            self.positions(self.embedding(target)),
            tgt_mask=mask,
            tgt_is_causal=True,
        )
        return self.head(out)


model = Reverser()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.98))
scheduler = SequentialLR(
    optimizer,
    [LinearLR(optimizer, 0.1, total_iters=5), CosineAnnealingLR(optimizer, T_max=20)],
    milestones=[5],
)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for step in range(20):
    source = torch.randint(1, LETTERS + 1, (32, LENGTH))
    reverse = source.flip(1)
    begun = torch.cat([torch.zeros(32, 1, dtype=torch.long), reverse[:, :-1]], 1)
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = model(source, begun)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), reverse.flatten())
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()
    if step % 4 == 0 or step == 19:
        lr = scheduler.get_last_lr()[0]
        print(f"step {step} {scores.dtype} lr {lr:.6f} loss {loss.item():.4f}")
print(f"scale {scaler.get_scale():g}")
