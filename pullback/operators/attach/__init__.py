"""How functions become methods of Tensor, and how families load when first used.

Start with `methods`; `names`, which is generated, lists the families that wait. Imports families:
it is what joins them to Tensor.
"""
