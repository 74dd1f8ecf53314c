"""The version of torch whose interface this is, as a string that compares as versions do."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any

from pullback.core.listing import only_public as _only_public

__all__ = ["TorchVersion"]

# The parts of a version by PEP 440.
_SPELLING = r"""(?xi)
    v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)
    (?:[-_.]?(?P<pre>a|b|c|rc|alpha|beta|pre|preview)[-_.]?(?P<pre_n>\d*))?
    (?P<post>(?:-(?P<post_only>\d+))|(?:[-_.]?(?:post|rev|r)[-_.]?(?P<post_n>\d*)))?
    (?P<dev>[-_.]?dev[-_.]?(?P<dev_n>\d*))?
    (?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?
"""  # compiled when versions are first compared: 0.8 ms
_PRE = {"a": 0, "alpha": 0, "b": 1, "beta": 1}  # the others are release candidates


@functools.cache
def _key(version: str) -> tuple[Any, ...] | None:
    """What to compare by; None for a string that is no version."""
    match = re.fullmatch(_SPELLING, version.strip())
    if match is None:
        return None
    release = [int(part) for part in match["release"].split(".")]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    if match["pre"]:
        pre = (0, _PRE.get(match["pre"].lower(), 2), int(match["pre_n"] or 0))
    else:  # a development release of no pre-release comes before all of them
        only_dev = match["dev"] and not match["post"]
        pre = (-1, 0, 0) if only_dev else (1, 0, 0)
    post = int(match["post_only"] or match["post_n"] or 0) if match["post"] else -1
    dev = int(match["dev_n"] or 0) if match["dev"] else float("inf")
    parts = re.split(r"[-_.]", match["local"].lower()) if match["local"] else ()
    local = tuple((1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts)
    return int(match["epoch"] or 0), release, pre, post, dev, local


def _as_key(version: Any) -> tuple[Any, ...] | None:
    if isinstance(version, str):
        return _key(str(version))
    if isinstance(version, Iterable):
        return _key(".".join(str(part) for part in version))
    raise TypeError(f"A version compares with strings and tuples, not {type(version).__name__}.")


def _comparison(name: str) -> Any:
    as_strings = getattr(str, name)

    def compare(self: str, other: Any) -> Any:
        try:
            theirs = _as_key(other)
        except TypeError:
            return NotImplemented
        if theirs is None:  # no version: two strings
            return as_strings(str(self), other)
        return getattr(_key(str(self)), name)(theirs)

    compare.__name__ = name
    return compare


class TorchVersion(str):
    """A version as a string; compared with strings and tuples it is a version.

    >>> from pullback.torch_version import TorchVersion
    >>> TorchVersion("1.10.0") > "1.9", TorchVersion("1.10.0") >= (1, 10)
    (True, True)
    """

    __slots__ = ()

    __eq__ = _comparison("__eq__")
    __ne__ = str.__ne__  # as torch has it: unequal strings are unequal
    __lt__ = _comparison("__lt__")
    __le__ = _comparison("__le__")
    __gt__ = _comparison("__gt__")
    __ge__ = _comparison("__ge__")
    __hash__ = str.__hash__


__version__ = TorchVersion("2.13.0+pullback")

__dir__ = _only_public(globals())
