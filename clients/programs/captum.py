"""captum: attributions by gradients, perturbations, layers and neurons, for one small network."""

import numpy as np
import torch
from captum import attr
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.relu1 = nn.ReLU()
        self.pool = nn.MaxPool2d(2)
        self.linear1 = nn.Linear(36, 8)
        self.relu2 = nn.ReLU()
        self.linear2 = nn.Linear(8, 3)

    def forward(self, x):
        x = self.pool(self.relu1(self.conv(x)))
        return self.linear2(self.relu2(self.linear1(x.flatten(1))))


model = Net().eval()
x = torch.randn(2, 1, 6, 6)
base = torch.zeros_like(x)


def show(name, value):
    print(name, tuple(value.shape), f"{value.abs().sum().item():.4f}")


ig = attr.IntegratedGradients(model)
found, delta = ig.attribute(x, base, target=1, n_steps=20, return_convergence_delta=True)
show("integrated gradients", found)
print(f"delta small {delta.abs().max().item() < 0.05}")
show("saliency", attr.Saliency(model).attribute(x, target=0))
show("input x gradient", attr.InputXGradient(model).attribute(x, target=0))
show("deep lift", attr.DeepLift(model).attribute(x, base, target=2))
show("deep lift shap", attr.DeepLiftShap(model).attribute(x, torch.randn(3, 1, 6, 6), target=2))
show("guided", attr.GuidedBackprop(model).attribute(x, target=0))
show("deconvolution", attr.Deconvolution(model).attribute(x, target=0))
show("lrp", attr.LRP(model).attribute(x, target=0))
show("occlusion", attr.Occlusion(model).attribute(x, (1, 3, 3), target=0, strides=(1, 3, 3)))
show("ablation", attr.FeatureAblation(model).attribute(x, target=0))
show("shapley", attr.ShapleyValueSampling(model).attribute(
    x, target=0, n_samples=2, feature_mask=torch.arange(36).reshape(1, 1, 6, 6) // 12))  # fmt: skip
torch.manual_seed(1)
np.random.seed(1)  # noqa: NPY002 (what captum draws baselines with)
show("gradient shap", attr.GradientShap(model).attribute(x, torch.cat([base, x]), target=0))
show("noise tunnel", attr.NoiseTunnel(attr.Saliency(model)).attribute(x, nt_samples=3, target=0))
show("grad cam", attr.LayerGradCam(model, model.conv).attribute(x, target=0))
show("activation", attr.LayerActivation(model, model.linear1).attribute(x))
show("conductance", attr.LayerConductance(model, model.conv).attribute(x, target=1, n_steps=10))
show(
    "layer integrated",
    attr.LayerIntegratedGradients(model, model.linear1).attribute(x, target=1, n_steps=10),
)
show("layer deep lift", attr.LayerDeepLift(model, model.conv).attribute(x, target=1))
show("neuron", attr.NeuronGradient(model, model.linear1).attribute(x, neuron_selector=2))
show("neuron conductance", attr.NeuronConductance(model, model.linear1).attribute(
    x, neuron_selector=1, target=1, n_steps=10))  # fmt: skip
show("kernel shap", attr.KernelShap(model).attribute(
    x[:1], target=0, n_samples=20, feature_mask=torch.arange(36).reshape(1, 1, 6, 6) // 12))  # fmt: skip
