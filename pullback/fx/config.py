"""Settings of fx, under torch's names."""

from __future__ import annotations

# Whether nodes that a faked module call replaces are shown; kept for programs that set it.
disable_progress = True
verbose_progress = False
