"""torchinfo: tables of layers, shapes, parameters and operations."""

import torch
from torch import nn
from torchinfo import summary


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.block = nn.ModuleList([nn.Conv2d(8, 8, 3, padding=1) for _ in range(2)])
        self.head = nn.Linear(8 * 16, 10)

    def forward(self, x):
        x = self.features(x)
        for layer in self.block:
            x = x + layer(x)
        return self.head(x.flatten(1))


columns = ["input_size", "output_size", "num_params", "kernel_size", "mult_adds", "trainable"]
print(
    summary(
        Net(), input_size=(4, 3, 8, 8), col_names=columns, row_settings=["var_names"], verbose=0
    )
)
result = summary(nn.LSTM(5, 6, 2, batch_first=True), input_size=(2, 7, 5), verbose=0)
print(result.total_params, result.total_mult_adds)
print(summary(nn.Linear(3, 4), input_data=torch.ones(2, 3), verbose=0))
print(
    summary(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 5, 8), verbose=0, depth=3)
)
print(summary(nn.Embedding(10, 4), (2, 3), dtypes=[torch.long], verbose=0))
