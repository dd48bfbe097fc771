"""A student's own inputs: the same every time, different for everybody, unknown without the secret."""

from __future__ import annotations

import hashlib
import hmac

__all__ = ["student_seed"]


def student_seed(student: str, assignment: str, secret: str = "") -> int:
    """Return the seed of a student's inputs.

    Parameters
    ----------
    student : str
        Name or number, as it is in the list of students.
    assignment : str
        The assignment's name.
    secret : str
        The course's secret. Without one the inputs differ from student to student, but anybody can work
        them out; what a submission is judged by does not depend on their being secret.

    Returns
    -------
    int
        At least 0, below 2**48.

    Examples
    --------
    >>> student_seed("ada", "sort", "s3cret") == student_seed("ada", "sort", "s3cret")
    True
    >>> student_seed("ada", "sort", "s3cret") == student_seed("bob", "sort", "s3cret")
    False
    """
    text = f"{assignment}\0{student}".encode()
    return int.from_bytes(hmac.new(secret.encode(), text, hashlib.sha256).digest()[:6], "big")
