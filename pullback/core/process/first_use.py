"""One lock for what is made when first used: families of operators, and operators' code.

Re-entrant: making one thing may need another. Whoever makes something under it publishes it at the
end, so that an error or a Ctrl-C leaves it to be made by the next who asks. A fork waits for it:
the child would find what another thread had half made, and nobody there to finish it.
"""

from __future__ import annotations

import os
import threading

__all__ = ["first_use"]

first_use = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=first_use.acquire,
        after_in_parent=first_use.release,
        after_in_child=first_use.release,
    )
