"""Settings of `torch.compile`; read and set by programs, without effect here."""

from pullback.compiled.settings import install as _install

cache_key_tag = ""
dynamic_sources = ""
force_disable_caches = False
job_id = None
unbacked_sources = ""

_install(__name__)
