"""Settings of the partitioners, by torch's names."""

from pullback.compiler._settings import install as _install

activation_memory_budget = 1.0  # 1: the cut that costs least; 0: everything is computed again
aggressive_recomputation = False  # reductions and the like may be computed again as well
ban_recompute_reductions = True
cse = True  # equal operators are merged
recompute_views = True

_install(__name__)
