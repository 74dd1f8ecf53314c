"""einsum and tensordot: the equation's language, and sums that come out as NumPy's."""

import numpy
import pytest

import pullback as torch
from pullback.autograd.gradcheck import gradcheck, gradgradcheck


def randn(*shape, seed=0):
    values = numpy.random.default_rng(seed).standard_normal(shape)
    return torch.tensor(values, requires_grad=True)


EQUATIONS = """
    ij,jk->ik            2,3 3,4
    ij,jk->ki            2,3 3,4
    ij,jk                2,3 3,4
    ij,kj                2,3 4,3
    ij->                 2,3
    ij->j                2,3
    ij->ji               2,3
    ji                   2,3
    ii                   3,3
    ii->i                3,3
    iij->j               3,3,2
    i,j->ji              2 3
    ij,ij->i             2,3 2,3
    ij,ij->              2,3 2,3
    bij,bjk->bik         2,3,2 2,2,3
    bij,jk->ikb          2,3,2 2,3
    bqhd,bkhd->bhqk      2,3,2,2 2,4,2,2
    ij,k->j              2,3 4
    ...ij,...jk          2,2,3 3,2
    ...i->i...           2,3,4
    i...,i...->...       3,2 3,2
    bn,anm,bm->ba        2,3 4,3,2 2,2
    ij,jk,kl,lm->im      2,3 3,2 2,3 3,2
    Ab,bA                2,3 3,2
"""
CASES = [line.split() for line in EQUATIONS.strip().splitlines()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_einsum_agrees_with_numpy_and_its_own_gradients(case):
    equation, *shapes = case
    inputs = [randn(*map(int, s.split(",")), seed=n) for n, s in enumerate(shapes)]
    expected = numpy.einsum(equation, *[one.detach().numpy() for one in inputs])
    result = torch.einsum(equation, *inputs)
    numpy.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-12, atol=1e-14)
    assert gradcheck(lambda *given: torch.einsum(equation, *given), inputs)
    assert gradgradcheck(lambda *given: torch.einsum(equation, *given), inputs)


def test_labels_may_be_lists_of_numbers():
    a, b = randn(2, 3), randn(3, 4, seed=1)
    expected = torch.einsum("ij,jk->ki", a, b)
    assert torch.equal(torch.einsum(a, [0, 1], b, [1, 51], [51, 0]), expected)
    assert torch.equal(torch.einsum(a, [..., 1], b, [1, 2]), torch.einsum("ij,jk", a, b))


def test_spaces_and_a_list_of_tensors_are_understood():
    a, b = randn(2, 3), randn(3, 4, seed=1)
    assert torch.equal(torch.einsum(" i j , j k -> i k ", [a, b]), torch.einsum("ij,jk->ik", a, b))


def test_a_size_of_one_broadcasts():
    a, b = randn(2, 1), randn(3, 4, seed=1)
    expected = a.detach().numpy() * b.detach().numpy().sum(0)
    numpy.testing.assert_allclose(torch.einsum("ij,jk", a, b).detach().numpy(), expected)


def test_the_result_of_a_contraction_is_laid_out_as_asked():
    a, b = randn(5, 3), randn(3, 4, seed=1)
    assert torch.einsum("ij,jk->ki", a, b).is_contiguous()


def test_long_products_take_the_cheap_order():
    wide = torch.ones(1, 200)
    tall = torch.ones(200, 200)
    # From the right this would need 200 ** 3 products for each pair; from the left 200 ** 2.
    assert torch.einsum("ai,ij,jk,kl->al", wide, tall, tall, tall).tolist()[0][0] == 200.0**3


REFUSED = [
    (RuntimeError, "names 2 tensors", lambda: torch.einsum("i,j", torch.ones(2))),
    (RuntimeError, "2 dims", lambda: torch.einsum("i", torch.ones(2, 2))),
    (RuntimeError, "letters", lambda: torch.einsum("i1", torch.ones(2, 2))),
    (RuntimeError, "no part of", lambda: torch.einsum("i.j", torch.ones(2, 2))),
    (RuntimeError, "one ellipsis", lambda: torch.einsum("...i...", torch.ones(2, 2))),
    (RuntimeError, "no operand", lambda: torch.einsum("i->j", torch.ones(2))),
    (RuntimeError, "more than once", lambda: torch.einsum("i->ii", torch.ones(2))),
    (RuntimeError, "size 3", lambda: torch.einsum("i,i", torch.ones(2), torch.ones(3))),
    (RuntimeError, "same dtype", lambda: torch.einsum("i,i", torch.ones(2), torch.ones(2).half())),
    (ValueError, "equation and tensors", lambda: torch.einsum("i")),
    (ValueError, "0 to 51", lambda: torch.einsum(torch.ones(2), [52])),
    (TypeError, "must be a Tensor", lambda: torch.einsum("i", numpy.ones(2))),
    (RuntimeError, "not be negative", lambda: torch.tensordot(torch.ones(2), torch.ones(2), -1)),
    (RuntimeError, "sizes must be equal", lambda: torch.tensordot(torch.ones(2), torch.ones(3), 1)),
    (RuntimeError, "pairs", lambda: torch.tensordot(torch.ones(2), torch.ones(2), ([0], []))),
    (RuntimeError, "last sizes", lambda: torch.inner(torch.ones(2), torch.ones(3))),
]


@pytest.mark.parametrize(("kind", "words", "call"), REFUSED)
def test_misfits_are_refused(kind, words, call):
    with pytest.raises(kind, match=words):
        call()


@pytest.mark.parametrize(
    ("left", "right", "dims"),
    [
        ((2, 3, 4), (3, 4, 5), 2),
        ((2, 3), (4,), 0),
        ((2, 3, 4), (5, 4, 3), ([1, 2], [2, 1])),
        ((2, 3, 4), (4, 3), ([-1], [0])),
    ],
)
def test_tensordot_agrees_with_numpy(left, right, dims):
    a, b = randn(*left), randn(*right, seed=1)
    expected = numpy.tensordot(a.detach().numpy(), b.detach().numpy(), dims)
    result = torch.tensordot(a, b, dims)
    numpy.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-12)
    assert gradcheck(lambda *given: torch.tensordot(*given, dims), (a, b))


@pytest.mark.parametrize("wrong", ["text", 3, None, [1.0]])
def test_inner_takes_tensors_alone(wrong):
    for one in (torch.ones(3), torch.ones(())):
        with pytest.raises(TypeError, match=r"inner.*must be a Tensor"):
            torch.inner(one, wrong)
        with pytest.raises(TypeError, match=r"inner.*must be a Tensor"):
            torch.inner(wrong, one)
