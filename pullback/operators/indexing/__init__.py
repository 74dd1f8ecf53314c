"""Elements by position: `t[key]` and its assignment, gather and scatter, masks.

`subscript` reads, `assignment` writes, `keys` brings what stands in the brackets to a few forms.
"""
