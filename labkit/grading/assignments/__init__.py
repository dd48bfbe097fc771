"""The assignments that come with labkit: what they ask for, and by which checks they are judged.

The statements, the starting points and the solutions are notebooks in the checkout's folder ``course``.
"""

from labkit.grading.assignments.broadcast import BROADCAST
from labkit.grading.assignments.prefix_sum import PREFIX_SUM
from labkit.grading.assignments.sort import SORT

__all__ = ["ASSIGNMENTS", "BROADCAST", "PREFIX_SUM", "SORT"]

#: name -> assignment
ASSIGNMENTS = {assignment.name: assignment for assignment in (BROADCAST, SORT, PREFIX_SUM)}
