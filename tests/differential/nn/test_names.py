"""Every public name of torch.nn is here, or says why not."""

import importlib
import inspect
import pkgutil
import types

import pytest

torch = pytest.importorskip("torch")

PARTS = [
    "torch.nn",
    "torch.nn.functional",
    "torch.nn.init",
    "torch.nn.parameter",
    "torch.nn.grad",
    "torch.nn.parallel",
    "torch.nn.attention",
    "torch.nn.attention.bias",
    "torch.nn.attention.flex_attention",
    "torch.nn.utils",
    *(f"torch.nn.utils.{name}" for name in ("rnn", "parametrize", "parametrizations", "prune")),
    *(f"torch.nn.utils.{name}" for name in ("clip_grad", "convert_parameters", "fusion", "init")),
    *(f"torch.nn.utils.{name}" for name in ("memory_format", "stateless")),
    *(
        f"torch.nn.modules.{one.name}"
        for one in pkgutil.iter_modules(torch.nn.modules.__path__)
        if one.name != "linear_cross_entropy"
    ),
]
# Left out with a sentence, or torch's own odds and ends.
WITHOUT = {
    "torch.nn.functional": {"assert_int_or_pair"},
    "torch.nn.modules._functions": {"CrossMapLRN2d", "SyncBatchNorm"},
    "torch.nn.modules.module": {"T"},
    "torch.nn.modules.container": {"T"},
    "torch.nn.utils.fusion": {"ConvT", "LinearT"},
    "torch.nn.utils.rnn": {"bind"},
    "torch.nn.parallel": {"DistributedDataParallelCPU"},
}
EXPLAINED = {
    "torch.nn.functional": {
        *("ScalingType", "SwizzleType", "grouped_mm", "scaled_grouped_mm", "scaled_mm"),
    },
}


def own_names(module):
    listed = set(getattr(module, "__all__", ()))
    for name, value in vars(module).items():
        if not name.startswith("_") and not isinstance(value, types.ModuleType):
            home = getattr(value, "__module__", None)
            if home == module.__name__:
                listed.add(name)
    return listed


@pytest.mark.parametrize("part", PARTS)
def test_public_names(part):
    theirs = importlib.import_module(part)
    ours = importlib.import_module(part.replace("torch", "pullback", 1))
    wanted = own_names(theirs) - WITHOUT.get(part, set()) - EXPLAINED.get(part, set())
    assert sorted(name for name in wanted if not hasattr(ours, name)) == []
    for name in EXPLAINED.get(part, ()):
        with pytest.raises(AttributeError, match=f"has no '{name}': "):
            getattr(ours, name)


SURGERY = {
    "conv": "_ConvNd _ConvTransposeNd _LazyConvXdMixin",
    "batchnorm": "_BatchNorm _NormBase _LazyNormBase",
    "instancenorm": "_InstanceNorm",
    "pooling": "_MaxPoolNd _AvgPoolNd _LPPoolNd _MaxUnpoolNd _AdaptiveAvgPoolNd _AdaptiveMaxPoolNd",
    "dropout": "_DropoutNd",
    "loss": "_Loss _WeightedLoss",
    "padding": "_ConstantPadNd _ReflectionPadNd _ReplicationPadNd _CircularPadNd",
    "linear": "NonDynamicallyQuantizableLinear",
    "utils": "_single _pair _triple _quadruple _ntuple _reverse_repeat_tuple _list_with_default",
    "transformer": "_get_clones _get_activation_fn _get_seq_len _detect_is_causal_mask",
    "module": "_IncompatibleKeys _addindent _has_any_global_hook _WrappedHook",
    "adaptive": "_ASMoutput",
}


@pytest.mark.parametrize("file", SURGERY)
def test_private_names_that_module_surgery_uses(file):
    ours = importlib.import_module(f"pullback.nn.modules.{file}")
    for name in SURGERY[file].split():
        assert hasattr(ours, name)


def layers():
    import pullback

    return [
        name
        for name in pullback.nn.__all__
        if inspect.isclass(getattr(torch.nn, name, None))
        and issubclass(getattr(torch.nn, name), torch.nn.Module)
    ]


@pytest.mark.parametrize("name", layers())
def test_arguments_and_bases_of_layers(name):
    import pullback

    ours, theirs = getattr(pullback.nn, name), getattr(torch.nn, name)
    # Torch's have a decorator's signature, or take `*args`, where ours say what they take.
    if name not in ("NLLLoss2d", "Container", "LSTM", "GRU", "RNN"):
        assert [(one.name, one.kind) for one in inspect.signature(ours).parameters.values()] == [
            (one.name, one.kind) for one in inspect.signature(theirs).parameters.values()
        ]
    known = {kind.__name__ for kind in ours.__mro__}
    wanted = {kind.__name__ for kind in theirs.__mro__} - {"Generic"}
    assert wanted <= known


def test_the_methods_of_module():
    import pullback

    left_out = {"T_destination", "_maybe_warn_non_full_backward_hook", "_slow_forward"}
    wanted = set(dir(torch.nn.Module)) - left_out - {"dump_patches"}
    missing = wanted - set(dir(pullback.nn.Module))
    assert sorted(name for name in missing if not name.startswith("___")) == []
