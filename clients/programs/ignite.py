"""ignite: a trainer and an evaluator with metrics, handlers and events."""

import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Accuracy, Loss

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
x = torch.randn(64, 4)
batches = [(part, (part[:, 0] > 0).long()) for part in x.split(16)]
loss = torch.nn.CrossEntropyLoss()
trainer = create_supervised_trainer(model, optimizer, loss)
evaluator = create_supervised_evaluator(model, {"accuracy": Accuracy(), "loss": Loss(loss)})


@trainer.on(Events.EPOCH_COMPLETED)
def say(engine):
    """How well it does after each epoch."""
    evaluator.run(batches)
    found = evaluator.state.metrics
    print(f"epoch {engine.state.epoch} {found['accuracy']:.4f} {found['loss']:.4f}")


trainer.run(batches, max_epochs=4)
