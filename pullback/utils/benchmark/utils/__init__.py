"""The parts of `torch.utils.benchmark`, at torch's paths."""

from pullback.core.listing import only_public as _only_public

__all__: list[str] = []
__dir__ = _only_public(globals(), "common compare timer")
