"""`torch.ao`: quantisation and sparsity for deployment, which are not here."""

from __future__ import annotations

from pullback.core.explain.absent import all_absent

__getattr__ = all_absent(__name__)
