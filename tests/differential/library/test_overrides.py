"""All public functions with an object that is no tensor: who is asked, and with what."""

import inspect
import warnings

import pytest

import pullback

torch = pytest.importorskip("torch")

# Here one function where torch has two, of the same name: F's options are reported by name.
SHARED = """
    adaptive_max_pool1d batch_norm binary_cross_entropy_with_logits celu cosine_embedding_loss
    ctc_loss embedding_bag group_norm hinge_embedding_loss instance_norm kl_div layer_norm
    margin_ranking_loss max_pool1d max_pool1d_with_indices max_pool2d max_pool3d poisson_nll_loss
    rms_norm rrelu selu threshold triplet_margin_loss
""".split()  # noqa: SIM905 (as everywhere: names as text)
# Spelled otherwise: a composition of another signature.
APART = {("torch", "affine_grid_generator"), ("torch", "unravel_index"), ("torch", "clamp")}
APART |= {("torch", name) for name in SHARED}
APART |= {("nn.functional", "l1_loss"), ("nn.functional", "glu")}
APART |= {("torch", "is_inference")}  # a method of Tensor, which the package itself calls
APART |= {("torch", "detach")}  # asked, as the method that it is
APART |= {("torch", "sym_sum")}  # torch hands the summands over as if they were its arguments
APART |= {("torch", "lobpcg")}  # an iteration over many operators, asked by the first of them

PLACES = ["torch", "nn.functional", "linalg", "fft", "special"]


def place_of(library, path):
    place = library
    for part in path.split(".") if path != "torch" else ():
        place = getattr(place, part)
    return place


def asked(function, count):
    seen = []

    class Duck:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append((func, args, kwargs or {}))
            return -1

    given = [Duck() for _ in range(count)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(*given)
        except (TypeError, ValueError, RuntimeError, AttributeError, NotImplementedError):
            return None
    if not seen:
        return None
    func, args, kwargs = seen[0]
    position = {id(one): at for at, one in enumerate(given)}

    def told(value):
        return f"#{position[id(value)]}" if id(value) in position else repr(value)

    return func is function, [told(one) for one in args], {k: told(v) for k, v in kwargs.items()}


def compared(path):
    """Every function of a place that torch can be asked about and that is here."""
    overrides = torch.overrides.get_testing_overrides()
    theirs, ours = place_of(torch, path), place_of(pullback, path)
    for name in sorted(dir(theirs)):
        function = getattr(theirs, name)
        if name.startswith("_") or not callable(function) or function not in overrides:
            continue
        own = getattr(ours, name, None)
        parameters = inspect.signature(overrides[function]).parameters.values()
        count = sum(p.default is p.empty and p.kind in (0, 1) for p in parameters)
        if own is not None and count and (path, name) not in APART:
            yield name, function, own, count


@pytest.mark.parametrize("path", PLACES)
def test_functions_are_asked_as_torch_asks(path):
    differing = {}
    tried = 0
    for name, function, own, count in compared(path):
        expected = asked(function, count)
        if expected is None:
            continue
        tried += 1
        found = asked(own, count)
        if found is None or not found[0] or found[1:] != expected[1:]:
            differing[name] = (found, expected)
    assert differing == {}
    assert tried > 15


SIGNS = "add sub mul truediv mod pow matmul eq ne lt le gt ge and_ or_ xor lshift rshift".split()  # noqa: SIM905


@pytest.mark.parametrize("reflected", [False, True])
@pytest.mark.parametrize("name", SIGNS)
def test_signs_are_reported_as_torch_reports_them(name, reflected):
    import operator

    sign = getattr(operator, name)
    reports = []
    for library in (pullback, torch):
        seen = []

        class Duck:
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None, seen=seen):
                seen.append((func, args))
                return -1

        tensor, duck = library.ones(2, 2), Duck()
        sign(*((duck, tensor) if reflected else (tensor, duck)))
        func, args = seen[0]
        named = [key for key in dir(library.Tensor) if getattr(library.Tensor, key) is func]
        reports.append(([*named, func.__name__], ["d" if one is duck else "t" for one in args]))
    (ours, our_args), (theirs, their_args) = reports
    assert our_args == their_args
    assert set(ours) & set(theirs)
