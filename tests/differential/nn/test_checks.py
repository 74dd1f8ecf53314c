"""What layers and initialisers refuse, and what they give at their limits, next to torch's."""

import warnings

import pytest

from tests.differential.nn.sides import LIBRARIES, close, outcome

torch = pytest.importorskip("torch")

EXPRESSIONS = [
    "t.nn.init.calculate_gain('x')",
    "t.nn.init.calculate_gain('leaky_relu','a')",
    "t.nn.init.calculate_gain('selu')",
    "t.nn.init.eye_(t.ones(2,3))",
    "t.nn.init.eye_(t.ones(2))",
    "t.nn.init.dirac_(t.empty(4,2,3),groups=2)",
    "t.nn.init.dirac_(t.empty(3,2,3),2)",
    "t.nn.init.xavier_uniform_(t.ones(2))",
    "t.nn.init.kaiming_uniform_(t.ones(2,2),mode='x')",
    "t.nn.init.orthogonal_(t.ones(2))",
    "t.nn.init.sparse_(t.ones(3),0.1)",
    "(t.nn.init.sparse_(t.ones(10,3),0.35)==0).sum(0)",
    "t.nn.init.constant_(t.ones(2,requires_grad=True),3.).grad_fn",
    "t.nn.init._calculate_fan_in_and_fan_out(t.ones(2,3,4))",
    "t.nn.init.kaiming_normal_(t.empty(0,2)).shape",
    "t.nn.Softmax()(t.ones(2,2))",
    "t.nn.Softmax2d()(t.ones(2,2))",
    "t.nn.Threshold(1,2)",
    "t.nn.PReLU(0)",
    "t.nn.Dropout(2)",
    "t.nn.GroupNorm(3,4)",
    "t.nn.Bilinear(0,1,1)",
    "t.nn.Conv2d(3,4,3,groups=2)",
    "t.nn.Conv2d(4,4,3,padding='x')",
    "t.nn.Conv2d(4,4,3,padding='same',stride=2)",
    "t.nn.Conv2d(4,4,3,padding_mode='x')",
    "t.nn.ConvTranspose2d(4,4,3,padding_mode='reflect')",
    "t.nn.Conv2d(0,4,3).weight.shape",
    "t.nn.Conv2d(4,4,3)(t.ones(4,4))",
    "t.nn.Conv2d(4,4,3)(t.ones(1,3,5,5))",
    "t.nn.BatchNorm1d(3)(t.ones(2,3,4,5))",
    "t.nn.BatchNorm2d(3)(t.ones(1,3,1,1))",
    "t.nn.InstanceNorm1d(3)(t.ones(1,3,1))",
    "t.nn.InstanceNorm2d(3,affine=True)(t.ones(1,4,2,2))",
    "t.nn.LayerNorm(3)(t.ones(4))",
    "t.nn.Embedding(3,2,padding_idx=5)",
    "t.nn.Embedding(3,2)(t.tensor([3]))",
    "t.nn.Embedding(3,2)(t.ones(1))",
    "t.nn.Unflatten(1,3)",
    "t.nn.Unflatten(1,(2,2))(t.ones(1,4)).shape",
    "t.nn.Unflatten('x',(('a',2),))",
    "t.nn.Unflatten(1,[2,2])",
    "t.nn.Unflatten(1,(2,'a'))",
    "t.nn.Upsample(scale_factor=(2,3))",
    "t.nn.MaxUnpool2d(2)(t.ones(1,1,2,2),t.zeros(1,1,2,2).long())",
    "t.nn.CTCLoss()("
    "t.zeros(5,1,3).log_softmax(2), t.tensor([[1,2]]), t.tensor([5]), t.tensor([2]))",
    "t.nn.CosineEmbeddingLoss()(t.ones(2,3),t.ones(2,3),t.ones(2))",
    "t.nn.TripletMarginWithDistanceLoss(distance_function=lambda a,b:(a-b).abs().sum(-1))"
    "(t.ones(2,3),t.ones(2,3),t.zeros(2,3))",
    "t.nn.MSELoss()(t.ones(2),t.ones(3))",
    "t.nn.KLDivLoss(reduction='x')(t.ones(2),t.ones(2))",
    "t.nn.GaussianNLLLoss()(t.ones(2),t.ones(2),-t.ones(2))",
    "t.nn.HuberLoss(delta=-1)(t.ones(2),t.ones(2))",
    "t.nn.SmoothL1Loss(beta=-1)(t.ones(2),t.ones(2))",
    "t.nn.Flatten(0,1)(t.ones(2,3,4)).shape",
    "t.nn.MultiheadAttention(5,2)",
    "t.nn.MultiheadAttention(0,2)",
    "t.nn.Linear(2,3)(t.ones(3))",
    "t.nn.Linear(2.5,3)",
    "t.nn.CircularPad2d(1)(t.ones(1,1))",
    "t.nn.ReflectionPad1d(5)(t.ones(1,1,3))",
    "t.nn.ZeroPad2d((1,2,3,4))(t.ones(1,1,2,2)).shape",
    "t.nn.PixelShuffle(2)(t.ones(1,3,2,2))",
    "t.nn.Fold(4,2)(t.ones(1,4,9)).shape",
    "t.nn.LocalResponseNorm(2)(t.ones(1,2,3)).shape",
    "t.nn.RReLU(0.5,0.1)(t.ones(1))",
    "t.nn.GLU()(t.ones(3))",
    "t.nn.AdaptiveAvgPool2d((None,2))(t.ones(1,1,4,4)).shape",
    "t.nn.MaxPool2d(2,padding=2)(t.ones(1,1,4,4))",
    "t.nn.Hardtanh(1,0)",
    "t.nn.Hardtanh(1,1)",
]


def shown(found):
    """The value as it is compared: sizes as tuples, modules by their text."""
    if hasattr(found, "state_dict"):
        return repr(found)
    return tuple(found) if type(found).__name__ == "Size" else found


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_outcomes_are_the_same(expression):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = (outcome(t, lambda t: shown(eval(expression, {"t": t}))) for t in LIBRARIES)
    if isinstance(theirs, str | bool | type(None)) or isinstance(ours, str):
        assert ours == theirs
    elif "ones" in expression and isinstance(theirs, torch.Tensor) and theirs.requires_grad:
        assert tuple(ours.shape) == tuple(theirs.shape)  # of weights that are drawn
    else:
        close(ours, theirs, tolerance=1e-6)
