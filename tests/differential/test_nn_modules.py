"""Every layer next to torch's: its repr, state, results and gradients with equal weights."""

import inspect

import numpy
import pytest

import pullback

torch = pytest.importorskip("torch")

R = numpy.random.default_rng(0)


def normal(*shape):
    return R.standard_normal(shape)


def positive(*shape):
    return R.random(shape) * 0.8 + 0.1


def classes(high, *shape):
    return R.integers(0, high, shape)


def signs(*shape):
    return R.integers(0, 2, shape) * 2.0 - 1


VECTORS = (normal(4, 6),)
SEQUENCES = (normal(2, 4, 9),)
IMAGES = (normal(2, 4, 8, 8),)
VOLUMES = (normal(2, 4, 6, 6, 6),)
PAIR = (normal(5, 3), normal(5, 3))
SCORES = (normal(5, 4), classes(4, 5))

# Name, arguments, options, inputs.
CASES = [
    *((name, (), {}, VECTORS) for name in ("ReLU", "ReLU6", "SELU", "SiLU", "Mish", "Hardsigmoid")),
    *((name, (), {}, VECTORS) for name in ("Hardswish", "ELU", "CELU", "LeakyReLU", "Hardtanh")),
    *((name, (), {}, VECTORS) for name in ("Hardshrink", "Softshrink", "Softplus", "GELU", "GLU")),
    *((name, (), {}, VECTORS) for name in ("Sigmoid", "Tanh", "LogSigmoid", "Softsign", "PReLU")),
    *((name, (), {}, VECTORS) for name in ("Tanhshrink", "Identity", "Dropout", "AlphaDropout")),
    *((name, (-1,), {}, VECTORS) for name in ("Softmax", "Softmin", "LogSoftmax")),
    ("ReLU", (True,), {}, VECTORS),
    ("ELU", (0.5,), {"inplace": True}, VECTORS),
    ("Threshold", (0.1, 20), {}, VECTORS),
    ("Hardtanh", (-2, 2), {"inplace": True}, VECTORS),
    ("RReLU", (), {}, VECTORS),
    ("GELU", ("tanh",), {}, VECTORS),
    ("PReLU", (6, 0.1), {}, VECTORS),
    ("Softmax2d", (), {}, IMAGES),
    *((f"Dropout{n}d", (0.2,), {}, x) for n, x in ((1, SEQUENCES), (2, IMAGES), (3, VOLUMES))),
    ("FeatureAlphaDropout", (0.2,), {"inplace": True}, IMAGES),
    ("Linear", (6, 3), {}, VECTORS),
    ("Linear", (6, 3, False), {}, VECTORS),
    ("Bilinear", (3, 3, 4), {}, PAIR),
    ("Bilinear", (3, 3, 4), {"bias": False}, PAIR),
    ("Conv1d", (4, 6, 3), {"padding": 1, "stride": 2, "groups": 2}, SEQUENCES),
    ("Conv1d", (4, 6, 3), {"padding": "same", "padding_mode": "circular"}, SEQUENCES),
    ("Conv2d", (4, 6, (3, 2)), {"padding": (1, 0), "dilation": 2, "bias": False}, IMAGES),
    ("Conv2d", (4, 6, 3), {"padding": 2, "padding_mode": "reflect"}, IMAGES),
    ("Conv2d", (4, 6, 3), {"padding": "valid", "padding_mode": "replicate"}, IMAGES),
    ("Conv3d", (4, 2, 2), {"stride": 2}, VOLUMES),
    ("ConvTranspose1d", (4, 6, 3), {"stride": 2, "output_padding": 1}, SEQUENCES),
    ("ConvTranspose2d", (4, 6, 3), {"stride": 2, "groups": 2, "padding": 1}, IMAGES),
    ("ConvTranspose3d", (4, 2, 2), {"dilation": 2, "bias": False}, VOLUMES),
    ("MaxPool1d", (2,), {}, SEQUENCES),
    ("MaxPool2d", (3,), {"stride": 2, "padding": 1}, IMAGES),
    ("MaxPool2d", (2,), {"return_indices": True}, IMAGES),
    ("MaxPool3d", (2,), {"ceil_mode": True}, VOLUMES),
    ("AvgPool1d", (2,), {}, SEQUENCES),
    ("AvgPool2d", ((2, 3),), {"padding": 1, "count_include_pad": False}, IMAGES),
    ("AvgPool3d", (2,), {"divisor_override": 3}, VOLUMES),
    ("LPPool1d", (2, 3), {}, SEQUENCES),
    ("LPPool2d", (3, 2), {}, IMAGES),
    ("LPPool3d", (2, 2), {"stride": 2}, VOLUMES),
    ("AdaptiveAvgPool1d", (3,), {}, SEQUENCES),
    ("AdaptiveAvgPool2d", ((3, 2),), {}, IMAGES),
    ("AdaptiveAvgPool3d", (2,), {}, VOLUMES),
    ("AdaptiveMaxPool1d", (3,), {"return_indices": True}, SEQUENCES),
    ("AdaptiveMaxPool2d", (3,), {}, IMAGES),
    ("AdaptiveMaxPool3d", ((2, 3, 1),), {}, VOLUMES),
    *((f"MaxUnpool{n}d", (2,), {}, None) for n in (1, 2, 3)),
    ("BatchNorm1d", (6,), {}, VECTORS),
    ("BatchNorm1d", (4,), {"momentum": None}, SEQUENCES),
    ("BatchNorm2d", (4,), {"affine": False}, IMAGES),
    ("BatchNorm2d", (4, 1e-3), {"track_running_stats": False}, IMAGES),
    ("BatchNorm3d", (4,), {"bias": False}, VOLUMES),
    ("InstanceNorm1d", (4,), {}, SEQUENCES),
    ("InstanceNorm2d", (4,), {"affine": True, "track_running_stats": True}, IMAGES),
    ("InstanceNorm3d", (4,), {"affine": True}, VOLUMES),
    ("LayerNorm", (6,), {}, VECTORS),
    ("LayerNorm", ([8, 8],), {"bias": False}, IMAGES),
    ("LayerNorm", (6,), {"elementwise_affine": False}, VECTORS),
    ("RMSNorm", (6,), {}, VECTORS),
    ("RMSNorm", (6, 1e-3, False), {}, VECTORS),
    ("GroupNorm", (2, 4), {}, IMAGES),
    ("GroupNorm", (2, 4), {"affine": False}, IMAGES),
    ("LocalResponseNorm", (2,), {}, IMAGES),
    ("Embedding", (7, 3), {"padding_idx": -1}, (classes(7, 2, 5),)),
    ("Embedding", (7, 3), {"norm_type": 1.0, "scale_grad_by_freq": True}, (classes(7, 2, 5),)),
    ("EmbeddingBag", (7, 3), {"mode": "sum"}, (classes(7, 2, 5),)),
    ("Flatten", (), {}, IMAGES),
    ("Flatten", (0, 1), {}, IMAGES),
    ("Unflatten", (1, (2, 3)), {}, VECTORS),
    *((f"{kind}Pad1d", (2,), {}, SEQUENCES) for kind in ("Zero", "Reflection", "Replication")),
    *((f"{kind}Pad2d", ((1, 2, 0, 1),), {}, IMAGES) for kind in ("Zero", "Reflection", "Circular")),
    *((f"{kind}Pad3d", (1,), {}, VOLUMES) for kind in ("Zero", "Replication", "Circular")),
    ("ReflectionPad3d", (1,), {}, VOLUMES),
    ("ReplicationPad2d", (1,), {}, IMAGES),
    ("CircularPad1d", (1,), {}, SEQUENCES),
    ("ConstantPad1d", (2, 1.5), {}, SEQUENCES),
    ("ConstantPad2d", (1, -1.0), {}, IMAGES),
    ("ConstantPad3d", (1, 2.0), {}, VOLUMES),
    ("Upsample", (), {"scale_factor": 2}, IMAGES),
    ("Upsample", ((5, 6),), {"mode": "bilinear", "align_corners": False}, IMAGES),
    ("UpsamplingNearest2d", (), {"scale_factor": 2}, IMAGES),
    ("UpsamplingBilinear2d", (5,), {}, IMAGES),
    ("PixelShuffle", (2,), {}, IMAGES),
    ("PixelUnshuffle", (2,), {}, IMAGES),
    ("ChannelShuffle", (2,), {}, IMAGES),
    ("Unfold", (3,), {"padding": 1}, IMAGES),
    ("Fold", ((4, 5), (2, 2)), {}, (normal(2, 12, 12),)),
    ("CosineSimilarity", (), {}, PAIR),
    ("PairwiseDistance", (1,), {"keepdim": True}, PAIR),
    *((name, (), {}, PAIR) for name in ("L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss")),
    *((name, (), {"reduction": "sum"}, PAIR) for name in ("L1Loss", "MSELoss")),
    ("SmoothL1Loss", (), {"beta": 0.3, "reduction": "none"}, PAIR),
    ("NLLLoss", (), {}, SCORES),
    ("CrossEntropyLoss", (), {"label_smoothing": 0.1, "ignore_index": 2}, SCORES),
    ("BCELoss", (), {}, (positive(5, 3), positive(5, 3))),
    ("BCEWithLogitsLoss", (), {}, (normal(5, 3), positive(5, 3))),
    ("KLDivLoss", (), {"reduction": "batchmean"}, (normal(5, 3), positive(5, 3))),
    ("PoissonNLLLoss", (), {"full": True}, (normal(5, 3), positive(5, 3))),
    ("GaussianNLLLoss", (), {"eps": 1e-4}, (normal(5, 3), normal(5, 3), positive(5, 3))),
    ("HingeEmbeddingLoss", (0.5,), {}, (normal(5, 3), signs(5, 3))),
    ("MultiLabelMarginLoss", (), {}, (normal(2, 4), numpy.array([[3, 0, -1, 1], [1, -1, 0, 0]]))),
    ("SoftMarginLoss", (), {}, (normal(5, 3), signs(5, 3))),
    ("MultiLabelSoftMarginLoss", (), {}, (normal(5, 3), positive(5, 3))),
    ("CosineEmbeddingLoss", (), {"margin": 0.2}, (*PAIR, signs(5))),
    ("MarginRankingLoss", (0.3,), {}, (normal(5), normal(5), signs(5))),
    ("MultiMarginLoss", (), {"p": 2}, SCORES),
    ("TripletMarginLoss", (), {"swap": True}, (*PAIR, normal(5, 3))),
    ("TripletMarginWithDistanceLoss", (), {"margin": 2.0}, (*PAIR, normal(5, 3))),
    ("CTCLoss", (), {}, None),
    ("MultiheadAttention", (6, 2), {}, (normal(3, 2, 6),) * 3),
    ("MultiheadAttention", (6, 3), {"batch_first": True, "bias": False}, (normal(3, 2, 6),) * 3),
    (
        "MultiheadAttention",
        (6, 2),
        {"kdim": 4, "vdim": 3, "add_bias_kv": True, "add_zero_attn": True},
        (normal(3, 2, 6), normal(5, 2, 4), normal(5, 2, 3)),
    ),
    ("Sequential", (), {}, VECTORS),
    *((name, (), {}, None) for name in ("ModuleList", "ModuleDict", "ParameterList", "Module")),
]
RANDOM = ("Dropout", "RReLU")


def made(lib, name, args, options):
    module = getattr(lib.nn, name)(*args, **options)
    return module.double()


def given(lib, arrays, fixed):
    tensors = [lib.tensor(array) for array in arrays]
    for number, tensor in enumerate(tensors):
        if tensor.is_floating_point() and number not in fixed:
            tensor.requires_grad_()
    return tensors


def results(outcome):
    return [
        one for one in (outcome if isinstance(outcome, tuple) else (outcome,)) if one is not None
    ]


def run(module, tensors):
    outcome = results(module(*[t * 1 if t.is_floating_point() else t for t in tensors]))
    total = sum((one * one).sum() for one in outcome if one.is_floating_point())
    if total.requires_grad:
        total.backward()
    return outcome, [t.grad for t in tensors], {n: p.grad for n, p in module.named_parameters()}


def equal(ours, theirs):
    assert (ours is None) == (theirs is None)
    if ours is not None:
        assert tuple(ours.shape) == tuple(theirs.shape)
        numpy.testing.assert_allclose(
            ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-7, atol=1e-10
        )


def named(case):
    name, args, options, _ = case
    return f"{name}{args}{options}".replace(" ", "")


@pytest.mark.parametrize("case", CASES, ids=map(named, CASES))
def test_repr_and_state_are_torchs(case):
    name, args, options, _ = case
    ours, theirs = made(pullback, name, args, options), made(torch, name, args, options)
    assert repr(ours) == repr(theirs)
    assert [(k, tuple(v.shape), str(v.dtype)) for k, v in ours.state_dict().items()] == [
        (k, tuple(v.shape), str(v.dtype)) for k, v in theirs.state_dict().items()
    ]
    assert [k for k, _ in ours.named_parameters()] == [k for k, _ in theirs.named_parameters()]
    assert [k for k, _ in ours.named_buffers()] == [k for k, _ in theirs.named_buffers()]


@pytest.mark.parametrize(
    "case", [case for case in CASES if case[3] is not None], ids=lambda case: named(case)
)
@pytest.mark.parametrize("training", [True, False])
def test_results_and_gradients_are_torchs(case, training):
    name, args, options, arrays = case
    if training and (name.startswith(RANDOM) or "Dropout" in name):
        pytest.skip("draws random numbers")
    theirs = made(torch, name, args, options).train(training)
    ours = made(pullback, name, args, options).train(training)
    state = {k: pullback.tensor(v.numpy().copy()) for k, v in theirs.state_dict().items()}
    ours.load_state_dict(state)
    fixed = (1,) if name == "SoftMarginLoss" else ()  # torch has no gradient for that target
    our_side = run(ours, given(pullback, arrays, fixed))
    their_side = run(theirs, given(torch, arrays, fixed))
    for mine, others in zip(our_side[:2], their_side[:2], strict=True):
        for a, b in zip(mine, others, strict=True):
            equal(a, b)
    for key, g in their_side[2].items():
        equal(our_side[2][key], g)
    for (key, a), b in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
        numpy.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-8, err_msg=key)


@pytest.mark.parametrize("name", sorted({case[0] for case in CASES} - {"Module"}))
def test_arguments_and_defaults_are_torchs(name):
    def arguments(lib):
        kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        taken = inspect.signature(getattr(lib.nn, name)).parameters.values()
        return [(p.name, p.default) for p in taken if p.kind not in kinds]

    assert arguments(pullback) == arguments(torch)


INITIALISED = [
    ("Linear", (400, 300)),
    ("Bilinear", (30, 40, 50)),
    ("Conv2d", (30, 40, 5)),
    ("ConvTranspose2d", (30, 40, 5)),
    ("Embedding", (400, 300)),
    ("EmbeddingBag", (400, 300)),
    ("MultiheadAttention", (96, 4)),
    ("MultiheadAttention", (96, 4, 0.0, True, True, False, 48)),
    ("BatchNorm2d", (50,)),
    ("LayerNorm", (50,)),
]


@pytest.mark.parametrize(("name", "args"), INITIALISED)
def test_parameters_start_with_torchs_distribution(name, args):
    pullback.manual_seed(0)
    torch.manual_seed(0)
    ours, theirs = getattr(pullback.nn, name)(*args), getattr(torch.nn, name)(*args)
    for (key, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        a, b = a.detach().numpy(), b.detach().numpy()
        scale = abs(b).max()
        if a.size > 1000:
            assert abs(a).max() == pytest.approx(scale, rel=0.15, abs=1e-6), key
        assert a.std() == pytest.approx(b.std(), rel=0.15 if a.size > 1000 else 0.4, abs=1e-6), key
        assert abs(a.mean() - b.mean()) <= 0.2 * scale + 1e-6, key


INITIALISERS = [
    ("uniform_", (-1, 2)),
    ("normal_", (1.0, 0.5)),
    ("trunc_normal_", (0.0, 1.0, -1.0, 0.5)),
    ("constant_", (0.3,)),
    ("ones_", ()),
    ("zeros_", ()),
    ("eye_", ()),
    ("xavier_uniform_", (2.0,)),
    ("xavier_normal_", ()),
    ("kaiming_uniform_", (0.1, "fan_out")),
    ("kaiming_normal_", (0, "fan_in", "relu")),
    ("orthogonal_", (2.0,)),
    ("sparse_", (0.3, 0.5)),
]


@pytest.mark.parametrize(("name", "args"), INITIALISERS)
def test_initialisers_have_torchs_distribution(name, args):
    values = []
    for lib in (pullback, torch):
        lib.manual_seed(1)
        tensor = lib.empty(120, 90)
        assert getattr(lib.nn.init, name)(tensor, *args) is tensor
        values.append(tensor.numpy())
    ours, theirs = values
    for measure in (numpy.mean, numpy.std, numpy.max, numpy.min):
        assert measure(ours) == pytest.approx(measure(theirs), rel=0.2, abs=0.02)
    if name == "orthogonal_":
        numpy.testing.assert_allclose(ours.T @ ours, 4 * numpy.eye(90), atol=1e-4)
    if name == "sparse_":
        assert ((ours == 0).sum(0) == 36).all()


@pytest.mark.parametrize(
    "gain", [("relu",), ("tanh",), ("leaky_relu", 0.2), ("selu",), ("conv2d",)]
)
def test_gains_are_torchs(gain):
    assert pullback.nn.init.calculate_gain(*gain) == torch.nn.init.calculate_gain(*gain)


def test_dirac_is_torchs():
    for groups in (1, 2):
        ours = pullback.nn.init.dirac_(pullback.empty(4, 3, 3, 3), groups)
        theirs = torch.nn.init.dirac_(torch.empty(4, 3, 3, 3), groups)
        equal(ours, theirs)


ERRORS = [
    lambda nn, lib: nn.Conv2d(3, 4, 3, groups=2),
    lambda nn, lib: nn.Conv2d(4, 4, 3, padding="some"),
    lambda nn, lib: nn.Conv2d(4, 4, 3, padding="same", stride=2),
    lambda nn, lib: nn.Conv2d(4, 4, 3, padding_mode="some"),
    lambda nn, lib: nn.ConvTranspose2d(4, 4, 3, padding_mode="reflect"),
    lambda nn, lib: nn.ConvTranspose2d(4, 4, 3, stride=2)(lib.zeros(1, 4, 5, 5), [20, 20]),
    lambda nn, lib: nn.GroupNorm(3, 4),
    lambda nn, lib: nn.Dropout(2),
    lambda nn, lib: nn.BatchNorm2d(3)(lib.zeros(2, 3)),
    lambda nn, lib: nn.BatchNorm1d(3)(lib.zeros(2, 3, 4, 5)),
    lambda nn, lib: nn.MultiheadAttention(5, 2),
    lambda nn, lib: nn.Embedding(3, 4, padding_idx=7),
    lambda nn, lib: nn.Linear(3),
    lambda nn, lib: nn.Module()(1),
    lambda nn, lib: nn.Module(3),
    lambda nn, lib: nn.Linear(2, 2).train(3),
    lambda nn, lib: nn.Linear(2, 2).to(lib.int64),
    lambda nn, lib: nn.Linear(2, 2).load_state_dict({}),
    lambda nn, lib: nn.Linear(2, 2).load_state_dict(3),
    lambda nn, lib: nn.Linear(2, 2).load_state_dict(nn.Linear(3, 2).state_dict()),
    lambda nn, lib: setattr(nn.Linear(2, 2), "weight", lib.zeros(2, 2)),
    lambda nn, lib: setattr(nn.Sequential(nn.ReLU()), "0", 3),
    lambda nn, lib: nn.Module().register_parameter("a.b", None),
    lambda nn, lib: nn.Module().register_parameter("", None),
    lambda nn, lib: nn.Module().register_parameter("a", lib.zeros(1)),
    lambda nn, lib: nn.Module().register_parameter("training", None),
    lambda nn, lib: nn.Module().register_buffer("a", 3),
    lambda nn, lib: nn.Module().add_module("a", 3),
    lambda nn, lib: nn.Module().nothing,
    lambda nn, lib: nn.Linear(2, 2).get_submodule("a.b"),
    lambda nn, lib: nn.Linear(2, 2).get_parameter("in_features"),
    lambda nn, lib: nn.Linear(2, 2).get_buffer("weight"),
    lambda nn, lib: nn.Sequential(nn.ReLU())[1],
    lambda nn, lib: nn.ModuleList([3]),
    lambda nn, lib: nn.ModuleDict({"a": 3}),
    lambda nn, lib: nn.ModuleDict(3),
    lambda nn, lib: nn.ParameterDict({"a": lib.zeros(1)})["b"],
    lambda nn, lib: nn.init.eye_(lib.zeros(3)),
    lambda nn, lib: nn.init.xavier_uniform_(lib.zeros(3)),
    lambda nn, lib: nn.init.kaiming_uniform_(lib.zeros(3, 3), mode="some"),
    lambda nn, lib: nn.init.calculate_gain("some"),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors_have_torchs_type(number):
    with pytest.raises(Exception) as theirs:  # noqa: PT011 (its type is what is asked for)
        ERRORS[number](torch.nn, torch)
    with pytest.raises(Exception) as ours:  # noqa: PT011 (two libraries, two sentences)
        ERRORS[number](pullback.nn, pullback)
    assert type(ours.value).__name__ == type(theirs.value).__name__
