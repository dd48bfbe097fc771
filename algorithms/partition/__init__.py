"""Points of the plane, distributed anew so that ranks have equal costs: each file is one algorithm.

Each is a function ``name(comm, positions, costs, rows)`` of this rank's points; it returns the rows of the
points that are this rank's afterwards. A good one gives a rank points that are close together.
"""
