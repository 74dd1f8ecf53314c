"""Modules that came late, module surgery, and what is around parameters, next to torch's."""

import warnings

import numpy
import pytest

import pullback
from tests.differential.nn.sides import (
    LIBRARIES,
    close,
    compare,
    given,
    numbers,
    pair,
    random,
    same_outcome,
)

torch = pytest.importorskip("torch")


# Adaptive softmax and its like --------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"head_bias": True, "div_value": 2.0}])
@pytest.mark.parametrize("targets", [[0, 5, 12, 19, 3], [1, 2, 3], 7])
def test_adaptive_log_softmax(options, targets):
    modules = pair(lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [4, 10], **options))
    count = numpy.size(targets)
    x = random(count, 16) if isinstance(targets, list) else random(16)

    def run(library, module, x):
        found = module(x, library.tensor(targets))
        batch = x if x.ndim == 2 else x.unsqueeze(0)
        return found.output, found.loss, module.log_prob(batch), module.predict(batch)

    compare(modules, run, [x])


REFUSED = [
    lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(8, 20, []),
    lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 4]),
    lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [21]),
    lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4])(t.ones(5, 8), t.zeros(4).long()),
    lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4])(t.ones(5, 8), t.full((5,), 20)),
    lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4])(t.ones(2, 5, 8), t.zeros(2, 5).long()),
    lambda t: t.nn.FractionalMaxPool2d(2),
    lambda t: t.nn.FractionalMaxPool2d(2, output_size=3, output_ratio=0.5),
    lambda t: t.nn.FractionalMaxPool3d(2, output_ratio=1.5),
    lambda t: t.nn.SyncBatchNorm(3)(t.ones(2)),
    lambda t: t.nn.EmbeddingBag(4, 2)(t.tensor([0, 1])),
    lambda t: t.nn.EmbeddingBag(4, 2)(t.tensor([[0, 1]]), t.tensor([0])),
    lambda t: t.nn.utils.skip_init(t.nn.ReLU),
    lambda t: t.nn.utils.fuse_conv_bn_eval(t.nn.Conv2d(1, 2, 1), t.nn.BatchNorm2d(2)),
    lambda t: t.nn.utils.fuse_linear_bn_eval(t.nn.Linear(2, 4).eval(), t.nn.BatchNorm1d(3).eval()),
    lambda t: t.nn.Module().set_submodule("", t.nn.ReLU()),
    lambda t: t.nn.Module().set_submodule("a", 3),
    lambda t: t.nn.Module().set_submodule("a", t.nn.ReLU(), strict=True),
    lambda t: t.nn.Linear(1, 1).set_submodule("weight", t.nn.ReLU()),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_does_not_fit_is_refused_as_torch_does(number):
    same_outcome(REFUSED[number])


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("options", [{"output_size": 3}, {"output_ratio": 0.5}])
def test_fractional_pools_with_given_places(dims, options):
    samples = numpy.random.default_rng(3).random((2, 3, dims))

    def made(t):
        kind = getattr(t.nn, f"FractionalMaxPool{dims}d")
        return kind(2, **options, return_indices=True, _random_samples=given(t, samples))

    ours, theirs = made(pullback), made(torch)
    assert repr(ours) == repr(theirs)
    assert ours.kernel_size == theirs.kernel_size
    compare((ours, theirs), lambda t, m, x: m(x), [random(2, 3, *(7,) * dims)])


@pytest.mark.parametrize("out", [(), (2,), (2, 3)])
@pytest.mark.parametrize(
    "options",
    [{}, {"bias": True, "label_smoothing": 0.1}, {"ignore_index": 1, "reduction": "sum"}],
)
def test_linear_cross_entropy(out, options):
    weight = numpy.array([1.0, 2.0, 0.5])
    modules = pair(
        lambda t: t.nn.LinearCrossEntropyLoss(
            4, 3, out_features=out, weight=given(t, weight), **options
        )
    )
    target = numpy.random.default_rng(1).integers(0, 3, (5, *out))
    compare(modules, lambda t, m, x, y: m(x, y), [random(5, 4), target])


def test_cross_map_lrn_where_the_first_channel_is_zero():
    # Torch never takes the first channel out of its running sum.
    x = random(1, 6, 2, 2)
    x[:, 0] = 0
    modules = pair(lambda t: t.nn.CrossMapLRN2d(3, alpha=0.1))
    close(*(m(given(t, x)) for t, m in zip(LIBRARIES, modules, strict=True)))


def test_sync_batch_norm_in_one_process():
    def made(t):
        model = t.nn.Sequential(t.nn.BatchNorm2d(3), t.nn.Sequential(t.nn.BatchNorm2d(3)))
        return t.nn.SyncBatchNorm.convert_sync_batchnorm(model)

    modules = pair(made)
    compare(modules, lambda t, m, x: m(x), [random(4, 3, 2, 2)])
    close(modules[0][0].running_var, modules[1][0].running_var)


def test_old_names_warn_and_work():
    for library in LIBRARIES:
        x = library.zeros(3, 3)
        with pytest.warns(FutureWarning):
            library.nn.init.constant(x, 2.0)
        assert x[0, 0] == 2
        for name in ("uniform", "normal", "eye", "xavier_uniform", "kaiming_normal", "orthogonal"):
            with pytest.warns(FutureWarning):
                getattr(library.nn.init, name)(x)
        with pytest.warns(FutureWarning):
            library.nn.NLLLoss2d()
        with pytest.warns(FutureWarning):
            library.nn.Container(a=library.nn.ReLU())


# Module surgery -----------------------------------------------------------------------------------


def standardised(library):
    class Standardised(library.nn.Conv2d):
        def forward(self, x):
            weight = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
            return self._conv_forward(x, weight, self.bias)

    return Standardised(2, 3, 3, padding=1, padding_mode="circular")


def test_a_convolution_with_another_weight():
    modules = pair(standardised)
    compare(modules, lambda t, m, x: m(x), [random(1, 2, 5, 5)])
    assert modules[0]._reversed_padding_repeated_twice == (1, 1, 1, 1)


def test_a_convolution_from_its_base():
    def made(t):
        class Own(t.nn.modules.conv._ConvNd):
            def __init__(self):
                pair = t.nn.modules.utils._pair
                super().__init__(
                    2, 4, pair(3), pair(1), pair(1), pair(1), False, pair(0), 1, True, "zeros"
                )

            def forward(self, x):
                return t.nn.functional.conv2d(x, self.weight, self.bias, padding=self.padding)

        return Own()

    compare(pair(made), lambda t, m, x: m(x), [random(1, 2, 5, 5)])


def test_sizes_of_transposed_convolutions():
    modules = pair(lambda t: t.nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1))
    for size in ([9, 10], [1, 3, 10, 9]):
        compare(modules, lambda t, m, x, size=size: m(x, output_size=size), [random(1, 2, 5, 5)])


def test_prefixes_of_states_are_taken_off():
    from collections import OrderedDict

    results = []
    for library in LIBRARIES:
        state = OrderedDict({"module.a": 1, "b": 2})
        state._metadata = {"": 1, "module": 2, "module.x": 3}
        library.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
        results.append((dict(state), state._metadata))
    assert results[0] == results[1]


# Around parameters --------------------------------------------------------------------------------


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("affine", [True, False])
def test_fused_convolutions(transpose, affine):
    def made(t):
        kind = t.nn.ConvTranspose2d if transpose else t.nn.Conv2d
        return t.nn.Sequential(kind(2, 3, 2), t.nn.BatchNorm2d(3, affine=affine)).eval()

    modules = pair(made)
    for library, module in zip(LIBRARIES, modules, strict=True):
        module[1].running_mean.copy_(given(library, random(3)))
        module[1].running_var.copy_(given(library, random(3) ** 2))
    x = random(1, 2, 4, 4)
    results = []
    for library, module in zip(LIBRARIES, modules, strict=True):
        fused = library.nn.utils.fuse_conv_bn_eval(module[0], module[1], transpose)
        results.append((fused(given(library, x)), fused.weight, fused.bias))
        numpy.testing.assert_allclose(
            numbers(results[-1][0]), numbers(module(given(library, x))), atol=1e-9
        )
    close(*results)


@pytest.mark.parametrize("features", [3, 1])
def test_fused_linear(features):
    results = []
    modules = pair(lambda t: t.nn.Sequential(t.nn.Linear(2, 3), t.nn.BatchNorm1d(features)).eval())
    for library, module in zip(LIBRARIES, modules, strict=True):
        module[1].running_var.copy_(given(library, random(features) ** 2))
        fused = library.nn.utils.fuse_linear_bn_eval(module[0], module[1])
        results.append((fused.weight, fused.bias))
    close(*results)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1}, {"dilation": 2, "groups": 2}])
def test_gradients_of_convolutions_as_functions(dims, options):
    groups = options.get("groups", 1)
    x, w = random(2, 4, *(6,) * dims), random(4, 4 // groups, *(3,) * dims, seed=1)

    def run(t):
        input, weight = given(t, x), given(t, w)
        out = getattr(t.nn.functional, f"conv{dims}d")(input, weight, None, **options)
        g = given(t, random(*out.shape, seed=2))
        grads = t.nn.grad
        return (
            getattr(grads, f"conv{dims}d_input")(x.shape, weight, g, **options),
            getattr(grads, f"conv{dims}d_weight")(input, w.shape, g, **options),
        )

    close(*(run(library) for library in LIBRARIES))


def test_vectors_and_memory_formats():
    def run(t):
        layer = t.nn.Conv2d(2, 3, 2)
        vector = t.arange(27.0)
        t.nn.utils.vector_to_parameters(vector, layer.parameters())
        t.nn.utils.convert_conv2d_weight_memory_format(layer, t.channels_last)
        return (
            layer.weight,
            layer.weight.stride(),
            t.nn.utils.skip_init(t.nn.Linear, 2, 3).bias.shape,
        )

    ours, theirs = run(pullback), run(torch)
    close(ours[0], theirs[0])
    assert ours[1] == theirs[1]
    assert tuple(ours[2]) == tuple(theirs[2])


@pytest.mark.parametrize("order", [1.0, 2.0, float("inf")])
def test_clipping(order):
    def run(t):
        x = [given(t, random(3, seed=n), grad=True) for n in range(2)]
        sum((one * one).sum() for one in x).backward()
        total = t.nn.utils.clip_grad_norm_(x, 0.5, order)
        norm = t.nn.utils.get_total_norm([one.grad for one in x], order)
        t.nn.utils.clip_grads_with_norm_(x, 0.1, norm)
        first = [one.grad.clone() for one in x]
        t.nn.utils.clip_grad_value_(x, 0.01)
        return total, norm, first, [one.grad for one in x]

    close(*(run(library) for library in LIBRARIES))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_with_a_last_offset(mode):
    modules = pair(lambda t: t.nn.EmbeddingBag(5, 3, mode=mode, include_last_offset=True))

    def run(library, module, _):
        return module(library.tensor([0, 1, 4, 2]), library.tensor([0, 2, 2, 4]))

    compare(modules, run, [random(1)])


def test_tables_of_given_rows():
    rows = random(4, 3)

    def run(t):
        table = t.nn.Embedding.from_pretrained(given(t, rows), padding_idx=1)
        bag = t.nn.EmbeddingBag.from_pretrained(given(t, rows), freeze=False, mode="sum")
        return (
            repr(table),
            repr(bag),
            table.weight.requires_grad,
            bag.weight.requires_grad,
            table(t.tensor([1, 2])),
        )

    close(*(run(library) for library in LIBRARIES))


def test_dicts_of_parameters_are_sorted_where_torch_sorts_them():
    for library in LIBRARIES:
        made = library.nn.ParameterDict({"b": library.ones(1), "a": library.ones(1)})
        assert list(made) == ["a", "b"]


def test_stateless_calls():
    for library in LIBRARIES:
        layer = library.nn.Linear(1, 1, bias=False)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(FutureWarning):
                library.nn.utils.stateless.functional_call(layer, {}, library.ones(1, 1))
        with pytest.warns(FutureWarning):
            out = library.nn.utils.stateless.functional_call(
                layer, {"weight": library.full((1, 1), 3.0)}, library.ones(1, 1)
            )
        assert out.item() == 3.0


# Classes of one's own from the bases --------------------------------------------------------------


def from_bases(t):
    modules = t.nn.modules

    class Dice(modules.loss._Loss):
        def __init__(self, reduction="sum"):
            super().__init__(reduction=reduction)

        def forward(self, x):
            return x.sum() if self.reduction == "sum" else x.mean()

    class Weighted(modules.loss._WeightedLoss):
        def __init__(self, weight):
            super().__init__(weight, reduction="none")

        def forward(self, x):
            return x * self.weight

    class Smooth(t.nn.CrossEntropyLoss):
        def __init__(self):
            super().__init__(label_smoothing=0.1, reduction="sum")

        def forward(self, x):
            return super().forward(x, t.zeros(len(x)).long())

    class Norm(modules.batchnorm._BatchNorm):
        def _check_input_dim(self, input):
            pass

    class Drop(modules.dropout._DropoutNd):
        def forward(self, x):
            return x * self.p

    class Pool(modules.pooling._MaxPoolNd):
        def forward(self, x):
            return x * self.kernel_size + self.stride

    class Slope(t.nn.LeakyReLU):
        def __init__(self):
            super().__init__(negative_slope=0.3)

    return [
        Dice(),
        Dice("mean"),
        Weighted(t.arange(1.0, 4.0)),
        Smooth(),
        Norm(3),
        Drop(0.25),
        Pool(2),
        Slope(),
    ]


def test_classes_of_ones_own_from_the_bases():
    x = random(4, 3)
    for ours, theirs in zip(from_bases(pullback), from_bases(torch), strict=True):
        assert repr(ours) == repr(theirs)
        assert list(ours.state_dict()) == list(theirs.state_dict())
        close(ours.double()(given(pullback, x)), theirs.double()(given(torch, x)))


def test_old_switches_of_losses():
    for library in LIBRARIES:
        with pytest.warns(UserWarning, match="reduction"):
            loss = library.nn.L1Loss(size_average=False)
        assert loss.reduction == "sum"
        with pytest.warns(UserWarning, match="reduction"):
            loss = library.nn.modules.loss._Loss(reduce=False)
        assert loss.reduction == "none"
