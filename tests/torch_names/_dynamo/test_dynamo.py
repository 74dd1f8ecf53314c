"""Names of torch's compiler that libraries touch."""

import pytest

import pullback as torch


def test_settings_are_read_set_and_patched():
    config = torch._dynamo.config
    config.suppress_errors = True
    assert torch._dynamo.config.suppress_errors
    config.suppress_errors = False
    with config.patch(cache_size_limit=3):
        assert config.cache_size_limit == 3
    assert config.cache_size_limit == 8

    @config.patch("verbose", True)
    def inside():
        return config.verbose

    assert inside()
    assert not config.verbose
    with pytest.raises(AttributeError, match="nonsense"):
        config.patch(nonsense=1)
    saved = config.save_config()
    config.verbose = True
    config.load_config(saved)
    assert not config.verbose
    torch._inductor.config.triton.cudagraphs = False
    assert "max_autotune" in torch._inductor.list_options()


def test_marks_and_counters():
    dynamo = torch._dynamo
    x = torch.ones(2)
    dynamo.mark_dynamic(x, 0)
    dynamo.mark_static(x)
    dynamo.graph_break()
    dynamo.reset()
    assert dynamo.disable(len)([1]) == 1
    assert dynamo.utils.counters["stats"]["calls_captured"] == 0
    assert dynamo.optimize("eager")(lambda x: x + 1)(1) == 2
    assert issubclass(dynamo.exc.Unsupported, RuntimeError)


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch._dynamo.export(len),
    ],
)
def test_what_is_not_there_says_so(call):
    with pytest.raises(NotImplementedError):
        call()


@pytest.mark.parametrize(
    "whole",
    [
        lambda f: torch._dynamo.optimize("eager", nopython=True)(f),
        lambda f: torch._dynamo.optimize_assert("eager")(f),
    ],
)
def test_what_must_be_captured_whole_raises_where_it_cannot_be(whole):
    def decided(x):
        return x * 2 if x.sum().item() > 0 else x

    with pytest.raises(RuntimeError, match="values"):
        whole(decided)(torch.ones(2))
    assert whole(lambda x: x * 2)(torch.ones(1)).item() == 2
    assert torch._dynamo.optimize("eager")(decided)(torch.ones(1)).item() == 2


def test_optimize_takes_sizes_that_vary_and_may_be_switched_off():
    made = torch._dynamo.optimize("eager", dynamic=False)(lambda x: x + 1)
    assert made.dynamic is False

    def f(x):
        return x

    assert torch._dynamo.optimize("eager", disable=True)(f) is f
