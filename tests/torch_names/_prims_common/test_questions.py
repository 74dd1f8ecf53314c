"""Questions that decompositions ask: the answers are torch's."""

import itertools
from importlib import import_module

import pytest

import pullback

ours = import_module("pullback._prims_common")
refs = import_module("pullback._refs")
DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16"]
DTYPES += ["float32", "float64", "complex32", "complex64", "complex128"]
KINDS = [kind.name for kind in ours.ELEMENTWISE_TYPE_PROMOTION_KIND]


def test_references_are_the_operators():
    assert refs.sin is pullback.sin
    assert refs.linalg.norm is pullback.linalg.norm
    x = pullback.arange(4.0)
    assert refs.view(x, 2, 2).tolist() == [[0, 1], [2, 3]]
    assert refs.add_(x, 1) is x
    with pytest.raises(AttributeError, match="nothing_of_that_name"):
        refs.nothing_of_that_name


def test_dims_count_from_the_front_and_of_a_number_there_is_one():
    assert ours.canonicalize_dim(3, -1) == 2
    assert ours.canonicalize_dim(0, -1) == 0
    assert ours.canonicalize_dims(3, (0, -2)) == (0, 1)
    assert ours.reduction_dims((2, 3), None) == (0, 1)
    for wrong in (lambda: ours.canonicalize_dim(2, 2), lambda: ours.canonicalize_dim(0, 1)):
        with pytest.raises(IndexError):
            wrong()
    with pytest.raises(IndexError, match="no dimensions"):
        ours.canonicalize_dim(0, 0, wrap_scalar=False)
    with pytest.raises(RuntimeError, match="duplicate"):
        ours.reduction_dims((2, 3), (0, -2))
    with pytest.raises(ValueError, match="so"):
        ours.check(False, lambda: "so", ValueError)


def answers(module, questions):
    """What each question is answered with, dtypes by their names."""

    def shown(value):
        if isinstance(value, tuple):
            return tuple(map(shown, value))
        return str(value).rpartition(".")[2] if "." in str(value) else value

    found = []
    for question in questions:
        try:
            found.append(shown(question(module)))
        except (KeyError, RuntimeError, ValueError, TypeError) as error:
            found.append(type(error).__name__)
    return found


@pytest.mark.filterwarnings("ignore:ComplexHalf:UserWarning")
def test_answers_about_dtypes_and_strides_are_those_of_torch():
    torch = pytest.importorskip("torch")
    theirs = import_module("torch._prims_common")
    sides = {ours: pullback, theirs: torch}
    names = "is_boolean_dtype is_float_dtype is_complex_dtype is_integer_dtype dtype_to_type"
    names += " is_low_precision_dtype get_computation_dtype"
    questions = [
        lambda m, name=name, dtype=dtype: getattr(m, name)(getattr(sides[m], dtype))
        for name in names.split()
        for dtype in DTYPES
    ]
    questions += [
        lambda m, dtype=dtype: m.corresponding_complex_dtype(getattr(sides[m], dtype))
        for dtype in ("float16", "float32", "float64", "bfloat16")
    ]
    questions += [
        lambda m, dtype=dtype: m.corresponding_real_dtype(getattr(sides[m], dtype))
        for dtype in ("complex32", "complex64", "complex128")
    ]
    questions += [
        lambda m, kind=kind: m.type_to_dtype(kind) for kind in (bool, int, float, complex)
    ]
    questions += [
        lambda m, shape=shape, major=major: m.make_contiguous_strides_for(shape, major)
        for shape in ((), (3,), (2, 3), (2, 0, 3), (4, 2, 3))
        for major in (True, False)
    ]
    for kind, pair in itertools.product(KINDS, itertools.product(DTYPES, [*DTYPES, 2, 2.0, True])):
        questions.append(lambda m, kind=kind, pair=pair: _promoted(m, sides[m], kind, pair))
    assert answers(ours, questions) == answers(theirs, questions)


def _promoted(module, library, kind, pair):
    given = [
        library.ones(2, dtype=getattr(library, one)) if isinstance(one, str) else one
        for one in pair
    ]
    promotion = module.ELEMENTWISE_TYPE_PROMOTION_KIND[kind]
    return module.elementwise_dtypes(*given, type_promotion_kind=promotion)
