"""Arrays whose elements are numbers of any Python type: fractions, long floats, intervals.

`types.py` knows the types, `known.py` has the tables of those that need no registration,
`floats.py` says what a Python float means beside them; `array.py`, `functions.py` (of elements) and
`numpy_functions.py` (of arrays) compute. Loaded when a program first meets such a number.
"""
