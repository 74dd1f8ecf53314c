"""Tensors on device "meta": the shapes of all operators, no values."""

import copy

import pytest

import pullback as torch
from pullback.testing.samples import SAMPLES, resolve, samples_for


@pytest.fixture
def x():
    return torch.empty(2, 3, device="meta")


@pytest.mark.parametrize(
    "make",
    [
        lambda **options: torch.empty(2, 3, **options),
        lambda **options: torch.zeros(2, 3, **options),
        lambda **options: torch.ones((2, 3), dtype=torch.int64, **options),
        lambda **options: torch.full((2,), 7, **options),
        lambda **options: torch.rand(2, **options),
        lambda **options: torch.randn(2, 2, **options),
        lambda **options: torch.randint(5, (2,), **options),
        lambda **options: torch.randperm(5, **options),
        lambda **options: torch.arange(5, **options),
        lambda **options: torch.linspace(0, 1, 5, **options),
        lambda **options: torch.eye(3, **options),
        lambda **options: torch.tensor([1, 2], **options),
        lambda **options: torch.as_tensor([1.0, 2.0], **options),
        lambda **options: torch.empty_strided((2, 3), (1, 2), **options),
        lambda **options: torch.zeros_like(torch.ones(2), **options),
        lambda **options: torch.rand_like(torch.ones(2), **options),
        lambda **options: torch.ones(2).to(**options),
    ],
)
def test_made_on_meta_has_the_same_metadata(make):
    real, made = make(), make(device="meta")
    assert (made.shape, made.dtype, made.stride()) == (real.shape, real.dtype, real.stride())
    assert made.device == torch.device("meta")
    assert made.is_meta
    assert not made.is_cpu
    assert not real.is_meta


def test_default_device_may_be_meta():
    with torch.device("meta"):
        assert torch.zeros(2).is_meta
        assert torch.arange(3).is_meta
        assert torch.rand(3).is_meta
    assert not torch.zeros(2).is_meta


def test_size_costs_no_memory_or_time():
    x = torch.ones(10**5, 10**6, device="meta")
    assert (x @ x.t()).exp().sum(0).shape == (10**5,)


def test_printing_shows_no_values(x):
    assert repr(x) == "tensor(..., device='meta', size=(2, 3))"
    made = torch.ones(2, dtype=torch.int64, device="meta")
    assert repr(made) == "tensor(..., device='meta', size=(2,), dtype=torch.int64)"
    assert repr(x.requires_grad_()).endswith("requires_grad=True)")


@pytest.mark.parametrize(
    ("read", "kind"),
    [
        (lambda x: x[0, 0].item(), RuntimeError),
        (lambda x: float(x[0, 0]), RuntimeError),
        (lambda x: bool(x[0, 0]), RuntimeError),
        (lambda x: x.tolist(), NotImplementedError),
        (lambda x: x.numpy(), TypeError),
        (lambda x: x.__array__(), TypeError),
        (lambda x: x.cpu(), NotImplementedError),
        (lambda x: x.to("cpu"), NotImplementedError),
        (lambda x: torch.ones(2, 3).copy_(x), NotImplementedError),
        (lambda x: x.nonzero(), NotImplementedError),
        (lambda x: x[x > 0], NotImplementedError),
        (lambda x: x.unique(), NotImplementedError),
        (lambda x: torch.equal(x, x), NotImplementedError),
    ],
)
def test_values_never_leave(x, read, kind):
    with pytest.raises(kind, match=r"no data|has none"):
        read(x)


def test_devices_do_not_mix(x):
    for compute in (lambda a, b: a + b, lambda a, b: b * a, lambda a, b: torch.cat([a, b])):
        with pytest.raises(RuntimeError, match=r"device 'cpu'.*device 'meta'"):
            compute(x, torch.ones(2, 3))
    assert (x + torch.tensor(1.0)).is_meta
    assert x.index_select(0, torch.tensor([0])).shape == (1, 3)


def test_writes_change_nothing_but_the_version(x):
    x.add_(1).mul_(x).fill_(3).zero_().normal_()
    x[0] = 1
    x.copy_(torch.ones(3))
    assert x._version == 7
    assert x.is_meta


def test_views_share_and_know_their_base(x):
    part = x[1:]
    assert part._base is x
    assert part.storage_offset() == 3
    assert x.expand(4, 2, 3).stride() == (0, 3, 1)
    assert x.data_ptr() == 0
    assert x.untyped_storage().nbytes() == 24


def test_gradients_have_shapes(x):
    x.requires_grad_()
    ((x @ x.t()).exp() * 2).sum().backward()
    assert x.grad.is_meta
    assert x.grad.shape == (2, 3)
    (x * x).sum().backward()
    (first,) = torch.autograd.grad(x.sin().sum(), x, create_graph=True)
    assert first.is_meta
    assert first.requires_grad
    assert torch.func.grad(lambda v: v.sin().sum())(x.detach()).is_meta
    assert torch.func.vmap(torch.sin)(x.detach()).shape == (2, 3)


def test_parameters_and_copies_stay_on_meta(x):
    assert torch.nn.Parameter(x).is_meta
    assert copy.deepcopy(x).is_meta
    assert x.to("meta") is x
    assert x.to(torch.ones(2, device="meta", dtype=torch.float64)).dtype is torch.float64


def test_custom_operator_runs_its_fake(x):
    """C-48, C-49."""

    @torch.library.custom_op("meta_tests::pairs", mutates_args=())
    def pairs(x: torch.Tensor) -> torch.Tensor:
        raise AssertionError("the kernel must not see tensors without data")

    with pytest.raises(RuntimeError, match=r"meta_tests::pairs.*register_fake"):
        pairs(x)
    pairs.register_fake(lambda x: x.new_empty((x.shape[0], 2)))
    made = pairs(x)
    assert (made.shape, made.is_meta) == ((2, 2), True)


def test_data_dependent_size_is_refused_in_a_fake(x):
    """C-51."""

    @torch.library.custom_op("meta_tests::some", mutates_args=())
    def some(x: torch.Tensor) -> torch.Tensor:
        return x[x > 0]

    some.register_fake(lambda x: x.new_empty(torch.library.get_ctx().new_dynamic_size()))
    with pytest.raises(RuntimeError, match="meta_tests::some"):
        some(x)


# Calls that ask for values, which are refused: for the shape of the result, for an answer in
# Python's own types, for a check of the arguments, or for where segments begin.
_BY_VALUES = frozenset(
    {
        *("argwhere", "bincount", "masked_select", "nonzero", "unique", "unique_consecutive"),
        *("allclose", "equal"),
        *("linalg.lstsq", "nn.functional.gaussian_nll_loss", "nn.functional.one_hot"),
        "repeat_interleave",
        *("histogram", "histogramdd", "nn.functional.ctc_loss"),
    }
)
# Layouts that follow from how a kernel of several steps happens to work.
_BY_KERNEL = frozenset(
    {
        *("Tensor.sum_to_size", "linalg.cholesky_ex", "linalg.ldl_solve", "triangular_solve"),
        *("linalg.solve_triangular", "nn.functional.lp_pool1d", "nn.functional.lp_pool2d"),
        *("nn.functional.lp_pool3d", "nn.functional.normalize", "unsqueeze_copy", "expand_copy"),
    }
)


@pytest.mark.filterwarnings("ignore:.*deprecated")
@pytest.mark.parametrize("name", sorted(_BY_VALUES))
def test_questions_about_values_are_refused(name):
    function = resolve(torch, name)
    refused = 0
    for sample in samples_for(name):
        kwargs = {key: _moved(value) for key, value in sample.kwargs.items()}
        try:
            made = function(_moved(sample.input), *_moved(sample.args), **kwargs)
        except NotImplementedError as error:
            assert "meta" in str(error)  # noqa: PT017 (some samples of an operator are taken)
            refused += 1
        else:
            assert all(one.is_meta for one in _tensors(made))
    assert refused


@pytest.mark.filterwarnings("ignore:.*deprecated")
@pytest.mark.parametrize("name", sorted(SAMPLES.keys() - _BY_VALUES))
def test_results_have_the_metadata_of_real_ones(name):
    function = resolve(torch, name)
    for sample in list(samples_for(name))[:4]:
        if not sample.tensors:
            continue
        real, made = (
            _tensors(
                function(
                    carry(sample.input),
                    *carry(sample.args),
                    **{key: carry(value) for key, value in sample.kwargs.items()},
                )
            )
            for carry in (_copied, _moved)
        )
        for one, other in zip(real, made, strict=True):
            assert other.is_meta
            assert (other.shape, other.dtype) == (one.shape, one.dtype)
            assert other.requires_grad == one.requires_grad
            if one.numel() > 1 and name not in _BY_KERNEL:
                assert other.stride() == one.stride()


def _carried(value, how):
    if isinstance(value, torch.Tensor):
        made = how(value.detach())
        return made.requires_grad_() if value.requires_grad else made
    if isinstance(value, tuple | list):
        return type(value)(_carried(one, how) for one in value)
    return value


def _moved(value):
    return _carried(value, lambda tensor: tensor.to("meta"))


def _copied(value):
    """As it lies on the other device: moving there copies, and a copy fills its memory."""

    def copied(tensor):
        there = tensor.to("meta")
        return torch.empty_strided(there.shape, there.stride(), dtype=tensor.dtype).copy_(tensor)

    return _carried(value, copied)


def _tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if not isinstance(value, tuple | list):
        return []
    return [one for part in value for one in _tensors(part)]


@pytest.mark.parametrize("make", [torch.exp, torch.clone, lambda x: x + x, torch.relu])
def test_expanded_dimensions_keep_their_place_as_with_data(make):
    rows = [torch.zeros(1, 4, device=place).expand(3, 4) for place in ("cpu", "meta")]
    assert [make(one).stride() for one in rows] == [(4, 1), (4, 1)]
