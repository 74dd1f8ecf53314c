"""Methods of tensors are attached while other threads load families that have more."""

from pullback.operators.attach import methods


def test_methods_are_found_while_other_threads_load_more(monkeypatch):
    table = {"one": len}

    def home_of(function):
        if function is len:
            table["loaded_meanwhile"] = len
        return "nobody's"

    monkeypatch.setattr(methods, "METHODS", table)
    monkeypatch.setattr(methods, "home_of", home_of)
    methods._attach("somebody's")
    assert "loaded_meanwhile" in table
