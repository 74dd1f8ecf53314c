"""Numbers that vary: what they come to at other sizes is what plain numbers would have come to."""

import random

import pytest

from pullback.compiled.ir.symbols import NotSymbolic, Symbolic, Symbols


def grown(rng, leaves, depth):
    """A random expression of whole numbers, as a function of its leaves."""
    if depth == 0 or rng.random() < 0.15:
        number = rng.randint(-3, 9)
        return rng.choice([lambda n, m: n, lambda n, m: m, lambda n, m: number])
    a, b = grown(rng, leaves, depth - 1), grown(rng, leaves, depth - 1)
    k = rng.choice([2, 3, 4, 8, 64])
    return rng.choice([
        lambda n, m: a(n, m) + b(n, m),
        lambda n, m: a(n, m) - b(n, m),
        lambda n, m: a(n, m) * b(n, m),
        lambda n, m: -a(n, m),
        lambda n, m: a(n, m) // k,
        lambda n, m: a(n, m) % k,
        lambda n, m: (a(n, m) * k + b(n, m)) // k,
        lambda n, m: (a(n, m) * n) // n,
        lambda n, m: a(n, m) % m,
        lambda n, m: max(a(n, m), b(n, m)),
        lambda n, m: a(n, m) if a(n, m) < b(n, m) else b(n, m) * 2,
        lambda n, m: a(n, m) if a(n, m) == b(n, m) else b(n, m) + 1,
        lambda n, m: a(n, m) if b(n, m) >= 5 else 7,
    ])  # fmt: skip


@pytest.mark.parametrize("seed", range(300))
def test_expressions_hold_wherever_decisions_come_out_alike(seed):
    rng = random.Random(seed)
    expression = grown(rng, 2, 4)
    symbols = Symbols()
    n, m = symbols.size("n", 11, 2), symbols.size("m", 17, 3)
    made = expression(n, m)
    text = made.text if isinstance(made, Symbolic) else repr(made)
    assert eval(text, {"n": 11, "m": 17}) == expression(11, 17)
    for a in (2, 3, 5, 16, 64, 97):
        for b in (3, 4, 17, 33):
            now = {"n": a, "m": b}
            if all(eval(one, now) is outcome for one, outcome in symbols.decisions.items()):
                assert eval(text, now) == expression(a, b), (text, symbols.decisions)


def test_what_needs_the_number_is_refused():
    """None of these may take a number out of a symbol unseen."""
    n = Symbols().size("n", 11, 2)
    for use in (range, int, float, bool, [0].__mul__, [1, 2].__getitem__):
        with pytest.raises(NotSymbolic):
            use(n)
    with pytest.raises(NotSymbolic):
        n * (1, 2)


def test_bounds_of_sizes_settle_comparisons():
    symbols = Symbols()
    n = symbols.size("n", 11, 2)
    assert n != 1
    assert n - 1 > 0
    assert (n - 1) * (n - 1) >= 1
    assert 4 * n > n
    assert (n * 8) // n == 8
    assert (n + 63) // 64 * 64 >= 0
    assert not symbols.decisions
    assert n < 100
    assert symbols.decisions
