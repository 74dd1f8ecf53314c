"""Built-in operators have the tags that torch gives them."""

import pytest

import pullback

torch = pytest.importorskip("torch")


def both():
    """Overloads that both libraries have, as pairs."""
    for name in sorted({*dir(pullback), *dir(pullback.Tensor)}):
        ours = getattr(pullback.ops.aten, name, None)
        theirs = getattr(torch.ops.aten, name, None)
        if isinstance(theirs, torch._ops.OpOverloadPacket) and hasattr(ours, "overloads"):
            for overload in ours.overloads() if not isinstance(ours, type) else ():
                if hasattr(theirs, overload):
                    yield getattr(ours, overload), getattr(theirs, overload)


def test_tags_are_those_of_torch():
    pairs = list(both())
    assert len(pairs) > 800
    # A twin of `index_put_` that is no write there, for reasons of torch's own.
    known = {"aten.index_put_.hacked_twin"}
    differing = {
        str(ours): (sorted(tag.name for tag in ours.tags), sorted(tag.name for tag in theirs.tags))
        for ours, theirs in pairs
        if str(ours) not in known and {t.name for t in ours.tags} != {t.name for t in theirs.tags}
    }
    assert differing == {}
