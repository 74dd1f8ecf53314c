"""torchmetrics: classification, regression and others, batch by batch and as a collection."""

from clients import _vision  # noqa: F401 (it imports torchvision where that is installed)

# isort: split
import torch
import torchmetrics
from torchmetrics import MetricCollection, classification, functional, regression

torch.manual_seed(0)
scores = torch.randn(3, 40, 4).softmax(-1)
labels = torch.randint(0, 4, (3, 40))
metrics = MetricCollection(
    [
        classification.MulticlassAccuracy(num_classes=4),
        classification.MulticlassF1Score(num_classes=4, average="macro"),
        classification.MulticlassConfusionMatrix(num_classes=4),
        classification.MulticlassAUROC(num_classes=4),
        classification.MulticlassAveragePrecision(num_classes=4),
        classification.MulticlassCalibrationError(num_classes=4),
        classification.MulticlassCohenKappa(num_classes=4),
        classification.MulticlassMatthewsCorrCoef(num_classes=4),
    ]
)
for p, y in zip(scores, labels, strict=True):
    metrics.update(p, y)
for name, value in metrics.compute().items():
    print(name, [f"{one:.4f}" for one in value.float().flatten().tolist()])

truth, guess = torch.randn(50), torch.randn(50)
for metric in (
    regression.MeanSquaredError(),
    regression.MeanAbsoluteError(),
    regression.R2Score(),
    regression.PearsonCorrCoef(),
    regression.SpearmanCorrCoef(),
    regression.KendallRankCorrCoef(),
    regression.ExplainedVariance(),
):
    print(type(metric).__name__, f"{metric(guess, truth).item():.4f}")

auroc = classification.BinaryAUROC(thresholds=None)
print(f"{auroc(torch.sigmoid(guess), (truth > 0).long()).item():.4f}")
curve = functional.classification.binary_roc(torch.sigmoid(guess), (truth > 0).long())
print([len(part) for part in curve])
print(f"{functional.image.peak_signal_noise_ratio(guess, truth, data_range=4.0).item():.4f}")
picture = torch.rand(2, 3, 24, 24)
ssim = torchmetrics.image.StructuralSimilarityIndexMeasure(data_range=1.0)
print(f"{ssim(picture, (picture + 0.1 * torch.rand_like(picture)).clamp(0, 1)).item():.4f}")
print(f"{functional.text.perplexity(torch.randn(2, 5, 7), torch.randint(0, 7, (2, 5))).item():.3f}")
print(f"{torchmetrics.text.WordErrorRate()(['a b c'], ['a c c']).item():.4f}")
mean = torchmetrics.MeanMetric()
mean.update(torch.tensor([1.0, 2.0, 6.0]), weight=torch.tensor([1.0, 1.0, 2.0]))
print(f"{mean.compute().item():.3f}", mean)
metrics.reset()
kept = torchmetrics.wrappers.BootStrapper(regression.MeanSquaredError(), num_bootstraps=5)
print(sorted(kept(guess, truth)))
loss = regression.MeanSquaredError()
w = torch.zeros(50, requires_grad=True)
loss(guess * w, truth).backward()
print(f"{w.grad.norm().item():.4f}", list(mean.state_dict()))
