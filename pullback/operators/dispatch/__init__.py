"""Who looks on, and who is asked: observers, modes, and what stands before a function's own code.

Start with `dispatch`; `intercept` puts guards (`guards`, `layers`) before public functions. Imports
core, `declare` and `writing`; never a family.
"""
