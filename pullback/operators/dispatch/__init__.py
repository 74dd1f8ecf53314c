"""Who looks on: observers of every call, and the user's dispatch and function modes.

Start with `dispatch`. Imports core, `declare` and `writing`; never a family.
"""
