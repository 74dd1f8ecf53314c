"""The functional forms of elementwise optimizers: one step on tensors and state given as lists.

They differ in names alone, so each is made from its rule and the names of its parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

from pullback.optim.elementwise import Rule, step_each

__all__ = ["on_lists"]

# Accepted and without effect here: how to go about the step, not what it does.
_MANNERS = {
    *("foreach", "fused", "differentiable", "capturable"),
    *("has_complex", "has_sparse_grad", "grad_scale", "found_inf"),
}
# Options that rules ask for as one, of parameters that come one by one.
_TOGETHER = {
    "betas": ("beta1", "beta2"),
    "etas": ("etaminus", "etaplus"),
    "step_sizes": ("step_size_min", "step_size_max"),
}
_TYPES = {
    **dict.fromkeys(("foreach", "fused"), "bool | None"),
    **dict.fromkeys(("grad_scale", "found_inf"), "Tensor | None"),
    **dict.fromkeys(("lr", "beta1", "beta2"), "float | Tensor"),
    **dict.fromkeys(["amsgrad", "maximize", "nesterov", "centered"], "bool"),
}
_PLACED = Parameter.POSITIONAL_OR_KEYWORD


def on_lists(
    name: str,
    rule: Rule,
    lists: str,
    flags: str,
    options: str,
    *,
    as_real: bool = True,
    fixed: dict[str, Any] | None = None,
) -> Callable[..., None]:
    """The function `name(*lists, *flags, *, **options)`; flags have defaults, options have none.

    A state is called as in state dicts, a list of them in the plural: `exp_avgs`, `state_steps`.
    """
    signature = Signature(
        [
            *(Parameter(one, _PLACED, annotation="list[Tensor]") for one in lists.split()),
            *(_flag(one) for one in flags.split()),
            *(_option(one) for one in options.split()),
        ],
        return_annotation="None",
    )
    asked = [one for one in (*flags.split(), *options.split()) if one not in _MANNERS]
    states = {_of_one(one): one for one in lists.split()[2:]}

    def step(*args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        params, grads = bound.args[:2]
        chosen = {one: given[one] for one in asked} | (fixed or {})
        for joined, parts in _TOGETHER.items():
            if parts[0] in chosen:
                chosen[joined] = tuple(chosen[part] for part in parts)
        held = {state: given[one] for state, one in states.items()}
        step_each(rule, params, grads, held, chosen, as_real=as_real)

    step.__name__ = step.__qualname__ = name
    step.__module__ = f"{__package__}.{name}"
    step.__doc__ = f"One step of torch.optim's `{name}` on tensors and their state given as lists."
    step.__signature__ = signature  # type: ignore[attr-defined]  # mypy has no such attribute
    return step


def _flag(name: str) -> Parameter:
    kind = _TYPES.get(name, "bool")
    return Parameter(name, _PLACED, annotation=kind, default=None if "None" in kind else False)


def _option(name: str) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=_TYPES.get(name, "float"))


def _of_one(name: str) -> str:
    return name.removeprefix("state_").removesuffix("_list").removesuffix("s")
