"""The parameters that most layers have, by the shortest way."""

from __future__ import annotations

from typing import Any

from pullback.nn.modules.module import Module, from_tables

__all__ = ["parameter_table", "weight_and_bias"]

_usual: Any = object.__getattribute__


def weight_and_bias(module: Any) -> tuple[Any, Any]:
    """`module.weight, module.bias`, as Python finds them.

    As attributes they are what Python does not find: it makes an error for each, and then asks
    `__getattr__`, which takes 0.4 us. So where nothing stands before the table of parameters
    (neither on the class, which is looked at once, nor in the instance), the table is read.
    """
    cls = type(module)
    try:
        if cls._hides_no_weight is cls and cls.__getattr__ is from_tables:
            own = module.__dict__
            if "weight" not in own and "bias" not in own:
                own = own["_parameters"]
                return own["weight"], own["bias"]
    except (AttributeError, KeyError):  # no module, or computed: by a parametrization, for one
        pass
    _look_at(cls)
    return module.weight, module.bias


def parameter_table(
    module: Any, names: frozenset[str], table: str = "_parameters"
) -> dict[str, Any]:
    """The parameters, by name, where nothing of these names stands before them; or nothing.

    The names are among `_READ`, or begin as `weight_` and `bias_` do. Running statistics are in the
    table `_buffers`.
    """
    cls = type(module)
    _look_at(cls)
    if getattr(cls, "_hides_no_weight", None) is not cls or cls.__getattr__ is not from_tables:
        return {}
    own = module.__dict__
    known: dict[str, Any] = own[table]
    return known if own.keys().isdisjoint(names) else {}


def _look_at(cls: type) -> None:
    """Note on a class of modules whether it has attributes that come before its parameters.

    On the class, so that the note goes with it; it names the class, since subclasses inherit it.
    """
    if issubclass(cls, Module) and "_hides_no_weight" not in cls.__dict__:
        cls._hides_no_weight = cls if _hides_nothing(cls) else None


_NAMES = """
    weight bias in_proj_weight in_proj_bias q_proj_weight k_proj_weight v_proj_weight
    running_mean running_var num_batches_tracked
"""
_READ = frozenset(_NAMES.split())


def _hides_nothing(cls: type) -> bool:
    return cls.__getattribute__ is _usual and not any(
        name in _READ or name.startswith(("weight_", "bias_"))
        for base in cls.__mro__
        for name in base.__dict__
    )
