"""Calls that were active at a place, kept and worded."""

from pullback.utils._traceback import (
    CapturedTraceback,
    format_frame,
    format_traceback_short,
    shorten_filename,
)


def inner(skip):
    return CapturedTraceback.extract(skip=skip)


def outer(skip=0):
    return inner(skip)


def test_calls_are_kept_outermost_first():
    assert [one.name for one in outer().summary()][-2:] == ["outer", "inner"]
    assert [one.name for one in outer(1).summary()][-1] == "outer"


def test_they_are_worded_as_python_does():
    kept = outer()
    assert kept.format()[-1].splitlines()[0].endswith(", in inner")
    assert "CapturedTraceback.extract(skip=skip)" in kept.format()[-1]
    assert CapturedTraceback.format_all([kept, kept]) == [kept.format()] * 2
    kept.cleanup()
    assert (kept.format(), len(kept.summary())) == ([], 0)


def test_a_call_is_told_in_short():
    try:
        inner("no number")
    except TypeError as error:
        told = format_traceback_short(error.__traceback__)
    assert told.endswith(" in extract")
    assert told.startswith("pullback/utils/_traceback.py:")
    frame = outer().summary()[-1]
    assert format_frame(frame, base="/nowhere", line=True) == (
        f"return CapturedTraceback.extract(skip=skip)  # {frame.filename}:{frame.lineno} in inner"
    )


def test_paths_are_seen_from_a_folder_that_holds_them():
    assert shorten_filename("/a/b/c.py", base="/a") == "b/c.py"
    assert shorten_filename("/ab/c.py", base="/a") == "/ab/c.py"
