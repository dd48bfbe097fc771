"""The assignments that come with labkit: what they ask for, and by which checks they are judged.

The statements, the starting points and the solutions are notebooks in the checkout's folder ``course``.
"""

from labkit.grading.assignments.broadcast import BROADCAST
from labkit.grading.assignments.deadlock import DEADLOCK
from labkit.grading.assignments.julia import JULIA
from labkit.grading.assignments.prefix_sum import PREFIX_SUM
from labkit.grading.assignments.scaling_bug import SCALING_BUG
from labkit.grading.assignments.sort import SORT
from labkit.grading.assignments.torus_broadcast import TORUS_BROADCAST

__all__ = [
    "ASSIGNMENTS",
    "BROADCAST",
    "DEADLOCK",
    "JULIA",
    "PREFIX_SUM",
    "SCALING_BUG",
    "SORT",
    "TORUS_BROADCAST",
]

#: name -> assignment, in the order of a course
ASSIGNMENTS = {
    assignment.name: assignment
    for assignment in (BROADCAST, SORT, PREFIX_SUM, DEADLOCK, JULIA, TORUS_BROADCAST, SCALING_BUG)
}
