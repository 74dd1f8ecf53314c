"""Python's language, a small function for each thing that it has.

Each takes a value that may be a number or a tensor; `MORE` are those that want a number.
"""

LANGUAGE = []
MORE = []


def either(function):
    """A function of a number or a tensor."""
    LANGUAGE.append(function)
    return function


def of_number(function):
    """A function of a number."""
    MORE.append(function)
    return function
