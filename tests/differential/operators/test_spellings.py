"""Every operator under every spelling that torch takes, and some that it refuses.

The arguments are those of the samples; their names are read from torch's own schemas. Both sides
must give the same values, dtypes and shapes, or raise the same type of exception.
"""

import inspect
import warnings

import numpy
import pytest

import pullback
from pullback.testing import SAMPLES, resolve, samples_for, tensors_in

torch = pytest.importorskip("torch")

LIBRARIES = (torch, pullback)
SCHEMAS: dict[str, list] = {}
for _schema in torch._C._jit_get_all_schemas():
    if _schema.name.startswith("aten::") and not _schema.overload_name.endswith("out"):
        SCHEMAS.setdefault(_schema.name.removeprefix("aten::"), []).append(_schema)

# No two calls agree.
BY_CHANCE = {
    *(f"nn.functional.{name}" for name in ("dropout", "dropout2d", "dropout3d", "rrelu")),
    *(f"nn.functional.{name}" for name in ("alpha_dropout", "feature_alpha_dropout")),
    *(f"nn.functional.fractional_max_pool{dims}d" for dims in (2, 3)),
}
# Signs and phases are free, and shorter series give fewer digits.
BY_CHOICE = {
    *("linalg.qr", "qr", "geqrf"),
    *(f"special.bessel_{kind}" for kind in ("j0", "j1", "y0", "y1")),
}


# The operator and the way to write the call where torch's answer is another, and why.
KNOWN = {
    # A look for NumPy's name would cost every call of what is called often.
    ("scatter", "axis="),
    ("index_fill", "axis="),
    # A name that torch has for numbers alone, beside the one of the documentation.
    *(("isin", way) for way in ("0 by position", "1 by position")),
    *(("isin", f"{name} at its default") for name in ("assume_unique", "invert")),
    # Sections and indices are one argument here, whichever it is called.
    ("tensor_split", "without dim"),
    # Counts may be given alone; which of the two was meant, only their dtype tells.
    ("repeat_interleave", "without repeats"),
    # What stands second by position is torch's deprecated factor there.
    *((name, "other and x2=") for name in ("add", "sub")),
    # torch resizes the target, which no other in-place form does.
    *(("addbmm", f"{count} by position") for count in (1, 3)),
}


# NumPy's names of operands.
OPERANDS = (("input", "x"), ("input", "a"), ("input", "x1"), ("other", "x2"))


class Parameter:
    """One parameter of torch's function."""

    def __init__(self, name, *, required, keyword_only, default):
        self.name = "input" if name == "self" else name
        self.required, self.keyword_only, self.default = required, keyword_only, default


def signatures(name):
    """The lists of parameters that torch's function takes."""
    try:
        if not name.startswith("Tensor."):
            found = inspect.signature(resolve(torch, name)).parameters.values()
            if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in found):
                return []
            return [
                [
                    Parameter(
                        p.name,
                        required=p.default is p.empty,
                        keyword_only=p.kind is p.KEYWORD_ONLY,
                        default=p.default,
                    )
                    for p in found
                ]
            ]
    except (TypeError, ValueError):
        pass  # built in: the schemas tell
    short = name.removeprefix("Tensor.").removeprefix("nn.functional.").replace(".", "_")
    return [
        [
            Parameter(
                a.name,
                required=not a.has_default_value(),
                keyword_only=a.kwarg_only,
                default=a.default_value,
            )
            for a in schema.arguments
        ]
        for schema in SCHEMAS.get(short, ())
        if any("Tensor" in str(a.type) for a in schema.arguments)
        and not any("Dimname" in str(a.type) for a in schema.arguments)
    ]


def bound(signature, args, kwargs):
    """The arguments by name, or None where they do not fit."""
    names = [p.name for p in signature if not p.keyword_only]
    given = dict(zip(names, args, strict=False))
    known = {p.name for p in signature}
    if len(args) > len(names) or kwargs.keys() & given.keys() or kwargs.keys() - known:
        return None
    given |= kwargs
    return None if any(p.required and p.name not in given for p in signature) else given


def spellings(name, signature, given):
    """Ways to write the call: (what it is, positional arguments, keyword arguments)."""
    positional = []
    for p in signature:
        if p.keyword_only or p.name not in given:
            break
        positional.append(p.name)
    least = 1 if name.startswith("Tensor.") else 0
    for count in sorted({least, min(1, len(positional)), len(positional)}):
        taken = positional[:count]
        rest = {key: value for key, value in given.items() if key not in taken}
        yield f"{count} by position", [given[key] for key in taken], rest
    first = [given[key] for key in positional[:1]]
    rest = {key: value for key, value in given.items() if key not in positional[:1]}
    for ours, theirs in (("dim", "axis"), ("keepdim", "keepdims")):
        if ours in rest:
            renamed = {theirs if key == ours else key: value for key, value in rest.items()}
            yield f"{theirs}=", first, renamed
    for ours, theirs in OPERANDS:
        if ours in given and ours not in positional[:least]:
            renamed = {theirs if key == ours else key: value for key, value in given.items()}
            yield f"{theirs}=", [renamed.pop(key) for key in positional[:least]], renamed
            if ours in positional:  # both names at once
                by_place = [given[key] for key in positional]
                others = {key: value for key, value in given.items() if key not in positional}
                yield f"{ours} and {theirs}=", by_place, {**others, theirs: given[ours]}
    for p in signature:
        plain = isinstance(p.default, int | float | str | tuple)
        if p.name not in given and plain and p.name not in ("dtype", "layout", "memory_format"):
            yield f"{p.name} at its default", first, {**rest, p.name: p.default}
    yield "an unknown argument", first, {**rest, "unheard_of": 1}
    for key in given:
        if key not in positional[:least]:
            less = {other: value for other, value in given.items() if other != key}
            yield f"without {key}", [less.pop(k) for k in positional[:least]], less


def refused(signature):
    """The ways that lack or have too many arguments."""
    twice = {f"{ours} and {theirs}=" for ours, theirs in OPERANDS}
    return {"an unknown argument", *(f"without {p.name}" for p in signature), *twice}


def copied(value):
    if isinstance(value, LIBRARIES[0].Tensor | LIBRARIES[1].Tensor):
        return value.clone()
    return type(value)(map(copied, value)) if type(value) in (tuple, list) else value


def outcome(function, args, kwargs):
    """What a call gives: arrays with their dtypes, or the type of the exception."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(*copied(args), **{key: copied(v) for key, v in kwargs.items()})
    except Exception as error:
        return type(error).__name__
    tensors = list(tensors_in(result))
    return [(str(one.dtype), _array(one)) for one in tensors] or repr(result)


def _array(tensor):
    if isinstance(tensor, pullback.Tensor):
        return tensor._array
    return tensor.resolve_conj().numpy()


def differ(ours, theirs, *, by_value):
    """What is different, in words; nothing where nothing is."""
    if isinstance(ours, str) or isinstance(theirs, str):
        shown = [one if isinstance(one, str) else "a result" for one in (ours, theirs)]
        return "" if ours == theirs or not by_value else "{} is not {}".format(*shown)
    if [one[0] for one in ours] != [one[0] for one in theirs]:
        return f"dtypes {[one[0] for one in ours]} are not {[one[0] for one in theirs]}"
    for (_, a), (_, b) in zip(ours, theirs, strict=True):
        if a.shape != b.shape:
            return f"shape {a.shape} is not {b.shape}"
        if by_value and not numpy.allclose(a, b, rtol=1e-6, atol=1e-7, equal_nan=True):
            return "other values"
    return ""


def first_of_each_form(name):
    """Samples with different arguments given, as tensors of both libraries."""
    seen = set()
    ours = samples_for(name, requires_grad=False)
    theirs = samples_for(name, requires_grad=False, module=torch)
    for one, other in zip(ours, theirs, strict=True):
        form = tuple(type(a) for a in (one.input, *one.args)), tuple(sorted(one.kwargs))
        if form not in seen and one.layout == "contiguous" and len(seen) < 2:
            seen.add(form)
            yield one, other


def forms(name, one):
    """The functions to be called: (what it is, ours, torch's)."""
    yield "", resolve(pullback, name), resolve(torch, name)
    if "." not in name and isinstance(one.input, pullback.Tensor):
        for method in (name, f"{name}_"):
            if hasattr(torch.Tensor, method):
                yield f"{method} as a method, ", *(_method(method) for _ in LIBRARIES)


def _method(name):
    return lambda input, *args, **kwargs: getattr(input, name)(*args, **kwargs)


NAMES = {name for name in SAMPLES if resolve(torch, name) is not None}


@pytest.mark.parametrize("name", sorted(NAMES - {"Tensor.__getitem__"}))
def test_calls_are_taken_and_refused_as_torch_does(name):
    found = []
    by_value = name not in BY_CHANCE | BY_CHOICE
    for one, other in first_of_each_form(name):
        calls = [(one.input, *one.args), one.kwargs], [(other.input, *other.args), other.kwargs]
        for signature in signatures(name):
            given = [bound(signature, *call) for call in calls]
            if given[0] is None:
                continue
            ways = [spellings(name, signature, arguments) for arguments in given]
            for (way, args, kwargs), (_, their_args, their_kwargs) in zip(*ways, strict=True):
                for form, ours, theirs in forms(name, one):
                    if form and not (args and isinstance(args[0], pullback.Tensor)):
                        continue
                    if "_ as" in form and way in ("axis=", "keepdims="):
                        continue  # in-place forms take torch's own names only
                    if (name, way) in KNOWN or (form and " at its" in way):
                        continue
                    expected = outcome(theirs, their_args, their_kwargs)
                    # Overloads have names of their own; taking one for another does no harm.
                    if isinstance(expected, str) and way not in refused(signature):
                        continue
                    got = outcome(ours, args, kwargs)
                    if difference := differ(got, expected, by_value=by_value):
                        found.append(f"{form}{way} {sorted(kwargs)}: {difference}")
    assert not found, "\n".join(dict.fromkeys(found))
