"""lightning: a module is fitted, validated and asked, with callbacks and a schedule."""

from clients import _vision  # noqa: F401 (torchmetrics imports torchvision where it is installed)

# isort: split
import logging
import warnings

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning").setLevel(logging.ERROR)


class Regression(L.LightningModule):
    """A line through points."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        """One step."""
        loss = torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, _):
        """The error on points that were left out."""
        self.log("error", (self.layer(batch[0]) - batch[1]).abs().mean())

    def predict_step(self, batch, _):
        """What the line says."""
        return self.layer(batch[0])

    def configure_optimizers(self):
        """Adam, slower every epoch."""
        optimizer = torch.optim.Adam(self.parameters(), lr=0.1)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)]


class Seen(L.Callback):
    """Says what was logged."""

    def on_train_epoch_end(self, trainer, module):
        """After each epoch."""
        print(f"epoch {trainer.current_epoch} loss {trainer.callback_metrics['loss'].item():.4f}")


L.seed_everything(0, verbose=False)
x = torch.randn(64, 4)
points = TensorDataset(x, x.sum(1, keepdim=True))
trainer = L.Trainer(
    max_epochs=4,
    accelerator="cpu",
    callbacks=[Seen()],
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
model = Regression()
trainer.fit(
    model, DataLoader(points, batch_size=16, shuffle=True), DataLoader(points, batch_size=64)
)
print(f"error {trainer.callback_metrics['error'].item():.4f}")
print(
    [round(y.mean().item(), 4) for y in trainer.predict(model, DataLoader(points, batch_size=32))]
)
