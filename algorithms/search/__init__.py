"""Search of trees whose shape nobody knows in advance: each file is one algorithm.

Each is a function ``name(comm, tree)`` of a tree such as those of `labkit.datasets.trees`, and returns a
`Searched`: the sum of all nodes' values or the largest one, and the number of nodes that this rank expanded.
"""
