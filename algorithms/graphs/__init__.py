"""Algorithms on undirected graphs whose edges and vertices are distributed: each file is one algorithm.

Each takes this rank's share of the edges, an array of shape (m, 2), in any distribution, and returns values
of the vertices that this rank owns: rank r of p owns the vertices from ``r n // p`` to ``(r + 1) n // p``.
`labkit.datasets.graphs` makes such edges.
"""
