"""Attention by functions, masks of all forms, and transformers next to torch's."""

import warnings

import numpy
import pytest

import pullback
from tests.differential.nn.sides import (
    LIBRARIES,
    close,
    compare,
    given,
    pair,
    random,
    same_outcome,
)

torch = pytest.importorskip("torch")


def flex(library):
    import importlib

    return importlib.import_module(f"{library.__name__}.nn.attention.flex_attention")


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


MODS = {
    "none": None,
    "relative": lambda t, table: lambda score, b, h, q, k: score + (q - k),
    "slopes": lambda t, table: lambda score, b, h, q, k: score - t.exp2(-(h + 1.0)) * (q - k),
    "capped": lambda t, table: lambda score, b, h, q, k: 2 * t.tanh(score / 2),
    "causal": lambda t, table: lambda score, b, h, q, k: t.where(q >= k, score, -float("inf")),
    "table": lambda t, table: lambda score, b, h, q, k: score + table[h, q - k + 6],
}


@pytest.mark.parametrize("mod", MODS)
@pytest.mark.parametrize("heads", [4, 2])
def test_scores_by_a_function(mod, heads):
    def run(library, q, k, v, table):
        change = MODS[mod] and MODS[mod](library, table)
        return flex(library).flex_attention(
            q, k, v, score_mod=change, enable_gqa=heads != 4, return_lse=True, scale=0.3
        )

    arrays = [random(2, 4, 6, 3), random(2, heads, 6, 3, seed=1), random(2, heads, 6, 5, seed=2)]
    # Torch has no backward of it on the CPU; ours is checked by differences.
    results = [
        run(t, *(given(t, one) for one in (*arrays, random(4, 13, seed=3)))) for t in LIBRARIES
    ]
    close(*results, tolerance=1e-7)


MASKS = {
    "causal": lambda b, h, q, k: q >= k,
    "window": lambda b, h, q, k: (q - k).abs() <= 40,
    "by head": lambda b, h, q, k: (q + h) % 2 == 0,
    "prefix": lambda b, h, q, k: (k < 130) | (q >= k),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("size", [128, 64])
def test_block_masks(mask, size):
    made = [
        flex(t).create_block_mask(MASKS[mask], 2, 2, 300, 280, device="cpu", BLOCK_SIZE=size)
        for t in LIBRARIES
    ]
    ours, theirs = made
    names = [
        f"{full}{side}_{what}"
        for full in ("", "full_")
        for side in ("kv", "q")
        for what in ("num_blocks", "indices")
    ]
    for name in names:
        close(getattr(ours, name), getattr(theirs, name))
    assert ours.shape == theirs.shape
    assert ours.sparsity() == pytest.approx(theirs.sparsity())
    close(ours.to_dense(), theirs.to_dense())
    close(ours[:, 1].to_dense(), theirs[:, 1].to_dense())
    x, y = random(2, 2, 300, 4), random(2, 2, 280, 4, seed=1)
    results = [
        flex(t).flex_attention(given(t, x), given(t, y), given(t, y), block_mask=one)
        for t, one in zip(LIBRARIES, made, strict=True)
    ]
    close(*results, tolerance=1e-7)


def test_masks_of_elements_and_their_combinations():
    def run(t):
        f = flex(t)
        both = f.and_masks(MASKS["causal"], MASKS["by head"])
        either = f.or_masks(MASKS["causal"], MASKS["by head"])
        return [f.create_mask(one, 1, 2, 3, 4, device="cpu") for one in (both, either)]

    close(*(run(library) for library in LIBRARIES))


FLEX_REFUSED = [
    lambda t: flex(t).flex_attention(t.ones(1, 4, 2, 2), t.ones(1, 2, 2, 2), t.ones(1, 2, 2, 2)),
    lambda t: flex(t).flex_attention(t.ones(1, 1, 2, 2), t.ones(1, 1, 2, 3), t.ones(1, 1, 2, 3)),
    lambda t: flex(t).flex_attention(
        *[t.ones(1, 1, 2, 2)] * 3,
        block_mask=flex(t).create_block_mask(MASKS["causal"], 1, 1, 300, 300, device="cpu"),
    ),
    lambda t: t.nn.attention.sdpa_kernel("math").__enter__(),
]


@pytest.mark.parametrize("number", range(len(FLEX_REFUSED)))
def test_what_does_not_fit_is_refused_as_torch_does(number):
    same_outcome(FLEX_REFUSED[number])


@pytest.mark.parametrize("name", ["causal_upper_left", "causal_lower_right"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4)])
def test_causal_biases(name, shape):
    def run(t):
        import importlib

        bias = importlib.import_module(f"{t.__name__}.nn.attention.bias")
        mask = getattr(bias, name)(*shape)
        q = given(t, random(1, 2, shape[0], 4))
        k = given(t, random(1, 2, shape[1], 4, seed=1))
        with t.nn.attention.sdpa_kernel(t.nn.attention.SDPBackend.MATH):
            return t.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=mask)

    close(*(run(library) for library in LIBRARIES))


# Multihead attention ------------------------------------------------------------------------------

CAUSAL = numpy.triu(numpy.full((5, 5), -numpy.inf), 1)
HIDDEN = numpy.array([[False] * 5, [False, False, False, True, True]])
OPTIONS = [
    {},
    {"bias": False},
    {"add_bias_kv": True},
    {"add_zero_attn": True},
    {"add_bias_kv": True, "add_zero_attn": True, "batch_first": True},
    {"kdim": 6, "vdim": 3},
]
MASKED = {
    "none": {},
    "additive": {"attn_mask": CAUSAL},
    "bool": {"attn_mask": CAUSAL != 0},
    "for each head": {"attn_mask": random(4, 5, 5, seed=8)},
    "padding": {"key_padding_mask": HIDDEN},
    "additive padding": {"key_padding_mask": numpy.where(HIDDEN, -numpy.inf, 0.0)},
    "both": {"attn_mask": CAUSAL, "key_padding_mask": numpy.where(HIDDEN, -numpy.inf, 0.0)},
    "hint": {"attn_mask": CAUSAL, "is_causal": True},
}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("masks", MASKED)
@pytest.mark.parametrize("wanted", [{}, {"need_weights": False}, {"average_attn_weights": False}])
def test_multihead_attention(options, masks, wanted):
    modules = pair(lambda t: t.nn.MultiheadAttention(4, 2, **options))
    for library, module in zip(LIBRARIES, modules, strict=True):
        if module.bias_k is not None:
            module.bias_k.data = given(library, random(1, 1, 4, seed=5))
    first = options.get("batch_first", False)
    widths = (4, options.get("kdim", 4), options.get("vdim", 4))
    shapes = [(2, 5, width) if first else (5, 2, width) for width in widths]
    arrays = [random(*shape, seed=n) for n, shape in enumerate(shapes)]

    def run(library, module, q, k, v):
        given_masks = {
            name: one if isinstance(one, bool) else given(library, one)
            for name, one in MASKED[masks].items()
        }
        return module(q, k, v, **given_masks, **wanted)

    compare(modules, run, arrays)


def test_attention_without_a_batch_and_merged_masks():
    modules = pair(lambda t: t.nn.MultiheadAttention(4, 2, batch_first=True))

    def run(library, module, x):
        return module(x, x, x, key_padding_mask=given(library, HIDDEN[1]))

    compare(modules, run, [random(5, 4)])
    merged = [
        module.merge_masks(
            given(library, CAUSAL), given(library, HIDDEN), given(library, random(2, 5, 4))
        )
        for library, module in zip(LIBRARIES, modules, strict=True)
    ]
    close(*merged)


ATTENTION_REFUSED = [
    {"attn_mask": numpy.ones((5, 5), numpy.int32)},
    {"attn_mask": numpy.ones((2, 5, 5))},
    {"key_padding_mask": numpy.ones((5, 2))},
    {"is_causal": True},
]


@pytest.mark.parametrize("masks", ATTENTION_REFUSED)
def test_masks_that_do_not_fit_are_refused_as_torch_does(masks):
    def run(t):
        x = given(t, random(5, 2, 4))
        options = {
            name: one if isinstance(one, bool) else given(t, one) for name, one in masks.items()
        }
        return t.nn.MultiheadAttention(4, 2).double()(x, x, x, **options)

    same_outcome(run)


# Transformers -------------------------------------------------------------------------------------

KINDS = [
    {},
    {"norm_first": True, "batch_first": True},
    {"activation": "gelu", "bias": False},
    {"batch_first": True, "layer_norm_eps": 1e-3},
]


@pytest.mark.parametrize("options", KINDS)
@pytest.mark.parametrize("masks", ["none", "causal", "padding", "hint"])
def test_encoder_and_decoder(options, masks):
    modules = pair(lambda t: t.nn.Transformer(4, 2, 2, 1, 6, dropout=0.0, **options))
    first = options.get("batch_first", False)
    shape = (2, 5, 4) if first else (5, 2, 4)

    def run(library, module, src, tgt):
        more = {}
        if masks in ("causal", "hint"):
            more = {"src_mask": given(library, CAUSAL), "tgt_mask": given(library, CAUSAL)}
        if masks == "hint":
            more |= {"src_is_causal": True, "tgt_is_causal": True}
        if masks == "padding":
            more = {
                name: given(library, HIDDEN)
                for name in ("src_key_padding_mask", "memory_key_padding_mask")
            }
        return module(src, tgt, **more)

    compare(modules, run, [random(*shape), random(*shape, seed=1)])


@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("enable", [True, False])
def test_padding_at_the_end_is_left_out_in_evaluation(norm, enable):
    def made(t):
        layer = t.nn.TransformerEncoderLayer(4, 2, 6, batch_first=True)
        last = t.nn.LayerNorm(4) if norm else None
        return t.nn.TransformerEncoder(layer, 2, last, enable_nested_tensor=enable).eval()

    modules = pair(made)
    x = random(2, 5, 4)
    for hidden in (HIDDEN, HIDDEN[:, ::-1].copy()):
        results = []
        for library, module in zip(LIBRARIES, modules, strict=True):
            assert module.use_nested_tensor == enable
            mask = given(library, hidden)
            with library.no_grad():
                quiet = module(given(library, x), src_key_padding_mask=mask)
            results.append((quiet, module(given(library, x), src_key_padding_mask=mask)))
        close(*results)


def test_a_layer_can_be_changed_by_its_blocks():
    class Seen(pullback.nn.TransformerEncoderLayer):
        def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
            self.called = True
            return super()._sa_block(x, attn_mask, key_padding_mask, is_causal)

        def _ff_block(self, x):
            return x * 0

    layer = Seen(4, 2, 6)
    layer(pullback.ones(3, 1, 4))
    assert layer.called


@pytest.mark.parametrize(("src", "tgt"), [((3, 2, 4), (2, 3, 4)), ((3, 2, 5), (3, 2, 5))])
def test_sources_and_targets_that_do_not_fit(src, tgt):
    same_outcome(lambda t: t.nn.Transformer(4, 2, 1, 1, 8)(t.ones(*src), t.ones(*tgt)))


def test_causal_masks_are_detected():
    from pullback.nn.modules import transformer as ours

    theirs = torch.nn.modules.transformer
    for array in (CAUSAL, CAUSAL != 0, CAUSAL[:2, :2], numpy.zeros((5, 5))):
        for said in (None, True, False):
            assert ours._detect_is_causal_mask(
                pullback.tensor(array), said, 5
            ) == theirs._detect_is_causal_mask(torch.tensor(array), said, 5)
