"""What `init_rpc` can be told: how long calls may take, and which device stands for which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pullback.distributed.rpc.agent import DEFAULT_TIMEOUT

__all__ = ["BackendType", "DeviceMaps", "RpcBackendOptions", "TensorPipeRpcBackendOptions"]


class BackendType:
    """Names of transports. There is one, which torch's scripts call TENSORPIPE."""

    TENSORPIPE = "TENSORPIPE"


class RpcBackendOptions:
    """How long a call may take, and where workers meet."""

    def __init__(self, rpc_timeout: float = DEFAULT_TIMEOUT, init_method: str = "env://") -> None:
        self.rpc_timeout = float(rpc_timeout)
        self.init_method = init_method


class TensorPipeRpcBackendOptions(RpcBackendOptions):
    """The same, and device maps.

    >>> from pullback.distributed.rpc import TensorPipeRpcBackendOptions
    >>> options = TensorPipeRpcBackendOptions(rpc_timeout=5)
    >>> options.set_device_map("worker1", {0: 1})
    >>> options.device_maps
    {'worker1': {'cuda:0': 'cuda:1'}}
    """

    def __init__(
        self,
        *,
        num_worker_threads: int = 16,
        rpc_timeout: float = DEFAULT_TIMEOUT,
        init_method: str = "env://",
        device_maps: Mapping[str, Mapping[Any, Any]] | None = None,
        devices: Sequence[Any] | None = None,
        _transports: Any = None,
        _channels: Any = None,
    ) -> None:
        super().__init__(rpc_timeout, init_method)
        self.num_worker_threads = num_worker_threads
        self.devices = [_device(one) for one in devices or ()]
        self.device_maps: dict[str, dict[str, str]] = {}
        for to, mapping in (device_maps or {}).items():
            self.set_device_map(to, mapping)

    def set_device_map(self, to: str, device_map: Mapping[Any, Any]) -> None:
        """Tensors on a device here arrive at that device of worker `to`; answers come back so."""
        known = self.device_maps.setdefault(to, {})
        for here, there in device_map.items():
            source, target = _device(here), _device(there)
            if known.get(source, target) != target:
                raise ValueError(
                    f"set_device_map: {source} goes to {known[source]} on {to!r} already, "
                    f"not to {target}."
                )
            known[source] = target
        if len(set(known.values())) < len(known):
            raise ValueError(
                f"set_device_map: two devices go to one on {to!r}, so that gradients do not know "
                f"their way back: {known}."
            )


def _device(value: Any) -> str:
    if isinstance(value, int):
        return f"cuda:{value}"
    from pullback.core.device import device

    return str(device(value))


class DeviceMaps:
    """Which device a tensor goes to, by the maps of all workers.

    Args:
        mine: Name of this worker.
        maps: For each worker, its device map for each callee.

    >>> from pullback.distributed.rpc.options import DeviceMaps
    >>> maps = {"a": {"b": {"cuda:0": "cuda:1"}}, "b": {}}
    >>> DeviceMaps("a", maps).there("b", "cuda:0"), DeviceMaps("b", maps).there("a", "cuda:1")
    ('cuda:1', 'cuda:0')
    """

    def __init__(self, mine: str, maps: Mapping[str, Mapping[str, Mapping[str, str]]]) -> None:
        self._mine = mine
        self._to: dict[str, dict[str, str]] = {
            to: dict(known) for to, known in maps.get(mine, {}).items()
        }
        for other, known in maps.items():  # the way back of what others send here
            back = {there: here for here, there in known.get(mine, {}).items()}
            self._to[other] = {**back, **self._to.get(other, {})}

    def there(self, to: str, device: str) -> str:
        """The device on worker `to` for tensors of a device here."""
        found = self._to.get(to, {}).get(device)
        if found is not None:
            return found
        if device == "cpu":
            return device
        raise RuntimeError(
            f"rpc: a tensor on {device} cannot go from {self._mine!r} to {to!r}: no device map "
            "says where. Use TensorPipeRpcBackendOptions.set_device_map(), or .cpu() first."
        )
