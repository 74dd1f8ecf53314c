"""Settings of fx, under torch's names."""

from __future__ import annotations

from pullback.core.listing import only_public as _only_public

# Whether nodes that a faked module call replaces are shown; kept for programs that set it.
disable_progress = True
verbose_progress = False

__all__: list[str] = ["disable_progress", "verbose_progress"]
__dir__ = _only_public(globals())
