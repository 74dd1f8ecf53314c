"""`_check` and its relatives: an error of the right type, with the program's own words."""

import pytest

import pullback as torch


@pytest.mark.parametrize(
    ("check", "error"),
    [
        (torch._check, RuntimeError),
        (torch._check_index, IndexError),
        (torch._check_value, ValueError),
        (torch._check_type, TypeError),
        (torch._check_not_implemented, NotImplementedError),
    ],
)
def test_a_condition_that_fails_raises_in_the_programs_words(check, error):
    check(True)
    with pytest.raises(error, match="mine"):
        check(False, lambda: "mine")
    with pytest.raises(error, match="does not hold"):
        check(False)


def test_conditions_are_bools_or_ask_all_of_a_tensor():
    torch._check_tensor_all(torch.tensor([True]))
    with pytest.raises(RuntimeError):
        torch._check_tensor_all(torch.tensor([True, False]))
    for wrong in (1, torch.tensor(True)):
        with pytest.raises(TypeError, match="bool"):
            torch._check(wrong)
    with pytest.raises(RuntimeError):
        torch._check_is_size(-1)


def test_assert_async_asks_for_one_true_element():
    torch._assert_async(torch.tensor(2.0))
    with pytest.raises(RuntimeError, match="all positive"):
        torch._assert_async(torch.tensor(False), "all positive")
    with pytest.raises(RuntimeError, match="one element is needed"):
        torch._assert_async(torch.ones(2))
