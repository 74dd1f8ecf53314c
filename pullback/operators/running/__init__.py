"""The step-by-step path: every case of a declared operator, no hurry.

`interpret` is the oracle of the written code and its way out; `recording` gives results their
history, `inplace` and `writes` change tensors, `meta` computes shapes alone, `on_arrays` brings
rules to bare arrays. Start with `interpret`. Imports core, `declare`, `arrays`, `writing` and
`dispatch`; never a family.
"""
