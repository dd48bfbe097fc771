"""Ranking of linked lists that are distributed over ranks: each file is one algorithm.

Each is a function ``name(comm, n, successors)`` of this rank's elements, ``rank n // p`` to
``(rank + 1) n // p``, and returns for each the number of links from it to the end of its list. The last
element of a list is its own successor; there may be several lists.
"""
