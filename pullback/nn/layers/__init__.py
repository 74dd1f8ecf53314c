"""Layers that share a file with others in torch, a concept a file here.

`nn.modules` has the files that torch has, and shows these in theirs: attention in `activation`,
lists of parameters in `container`, cells in `rnn`, losses of margins in `loss`.
"""
