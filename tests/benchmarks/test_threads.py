"""The table of threads: every work runs, and two threads give the results of one."""

import pullback as torch
from benchmarks.threads import ByHand, large_works


def test_every_large_work_has_the_same_gradient_on_one_thread_and_on_two():
    for name, work in large_works(torch).items():
        results = []
        for threads in (1, 2):
            before = torch.get_num_threads()
            torch.set_num_threads(threads)
            try:
                results.append(work()[0])
            finally:
                torch.set_num_threads(before)
        assert torch.equal(*results), name


def test_a_product_by_hand_is_the_same_in_halves():
    by_hand = ByHand()
    by_hand.passes(1)
    whole = by_hand.product()
    by_hand.set_num_threads(2)
    assert by_hand.product().tobytes() == whole.tobytes()
