"""Conjugates and negatives that are put off: views of memory which say what is still to be done.

A `Deferred` tensor stands on the memory of another and gives, to whoever reads its array, a fresh
one with the elements conjugated or negated. So no kernel knows of it. What must know is asked where
other layouts are (`running/layouts.py`): views, which keep the bits; writes, which go to the
memory; products, which have a flag for it.
"""
