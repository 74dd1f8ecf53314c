"""A small convolutional network on drawn bars: batch norm, pooling, momentum, evaluation."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


def bars(count):
    """Pictures of 12 by 12 with a horizontal, vertical or diagonal bar in noise."""
    images = 0.3 * torch.randn(count, 1, 12, 12)
    labels = torch.randint(0, 3, (count,))
    places = torch.randint(2, 10, (count,))
    for image, label, place in zip(images, labels.tolist(), places.tolist(), strict=True):
        if label == 0:
            image[0, place, :] += 1
        elif label == 1:
            image[0, :, place] += 1
        else:
            image[0] += torch.eye(12).roll(place - 5, 0)
    return images, labels


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1, stride=2)
        self.norm2 = nn.GroupNorm(4, 16)
        self.head = nn.Linear(16 * 9, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(x))), 2)
        x = F.leaky_relu(self.norm2(self.conv2(x)), 0.1)
        return F.log_softmax(self.head(torch.flatten(x, 1)), dim=1)


images, labels = bars(192)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
for epoch in range(4):
    order = torch.randperm(len(images))
    losses = []
    for batch in order.split(32):
        optimizer.zero_grad(set_to_none=True)
        loss = F.nll_loss(model(images[batch]), labels[batch])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        losses.append(loss.item())
    scheduler.step()
    print(f"epoch {epoch} lr {scheduler.get_last_lr()[0]:g} loss {sum(losses) / len(losses):.5f}")

model.eval()
test_images, test_labels = bars(96)
with torch.inference_mode():
    accuracy = (model(test_images).argmax(1) == test_labels).float().mean()
print(f"running mean {model.norm1.running_mean.abs().sum():.4f} accuracy {accuracy:.2f}")
