"""The examples of budgets and of source run, and find what they claim."""

from tests.examples.test_gallery import example


def test_budgets_leave_the_losses_as_they_are(capsys):
    assert example("memory_budget").main(["--depth", "6", "--steps", "3"]) == 0
    assert "the same bits" in capsys.readouterr().out


def test_the_source_gives_the_gradients(capsys, tmp_path):
    assert example("backward_as_source").main(["--file", str(tmp_path / "backward.py")]) == 0
    assert (tmp_path / "backward.py").read_text() in capsys.readouterr().out
