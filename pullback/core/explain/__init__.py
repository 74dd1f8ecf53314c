"""What a tensor or node remembers so that an error can say why, and the sentences made of it.

`birth` is written where a tensor loses its history, `anomaly` where a node is made; `why` and
`rejoin` read them when something failed.
"""
