"""Which gradients travel together, and in which order (B-24)."""

import pullback as torch
import pullback.distributed as dist
from pullback.distributed.ddp.buckets import assign
from pullback.nn.parallel import DistributedDataParallel

MB = 1 << 20


def test_buckets_are_cut_at_their_caps_the_first_one_earlier():
    """B-24."""
    quarter = [torch.empty(MB // 16) for _ in range(40)]  # 256 kB each
    parts = assign(quarter, range(40), 4 * MB, MB, MB)
    assert [len(part) for part in parts] == [4, 16, 16, 4]
    assert [index for part in parts for index in part] == list(range(40))


def test_buckets_never_mix_dtypes():
    """B-24."""
    mixed = [torch.empty(8, dtype=(torch.float32, torch.float64)[k % 2]) for k in range(6)]
    assert assign(mixed, range(6), MB, MB, MB) == [[0, 2, 4], [1, 3, 5]]


class Crossed(torch.nn.Module):
    """Layers that are used in another order than they are registered in."""

    def __init__(self):
        super().__init__()
        self.last, self.first = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.last(self.first(x))


def test_buckets_begin_in_reverse_order_and_are_rebuilt_once_as_gradients_came():
    """B-24."""

    def main():
        parallel = DistributedDataParallel(Crossed(), overlap=True, bucket_cap_mb=1e-6)
        orders = []
        for _ in range(3):
            orders.append([bucket.indices for bucket in parallel.reducer.buckets])
            parallel(torch.ones(1, 2)).sum().backward()
        return orders

    one, other = dist.threads.run(main, 2)
    assert one == other
    assert one[0] == [[3], [2], [1], [0]]
    # Registered are last.weight, last.bias, first.weight, first.bias; the last layer comes first.
    assert {index for (index,) in one[1][:2]} == {0, 1}
    assert {index for (index,) in one[1][2:]} == {2, 3}
    assert one[1] == one[2]
