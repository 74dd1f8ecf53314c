"""The same elements in another arrangement: views, and what rearranges into new memory.

`views` are the declared ones, `reshaping` the public forms; `joining`, `arrange` and `tiling` put
together and repeat; `restriding` makes views anew after writes.
"""
