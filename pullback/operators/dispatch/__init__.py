"""Who looks on, and who is asked: observers, the user's modes, what stands before a function's code.

Start with `dispatch`; `intercept` puts guards (`guards`, `layers`) before public functions. Imports core, `declare` and `writing`; never a family.
"""
