"""Numbers of NumPy as a notebook shows them: 3, not np.int64(3), in lists and tuples, printed or returned."""

from __future__ import annotations

from labkit.result.by_rank import PLAIN_NUMBERS

__all__ = ["show_number_types", "show_plain_numbers"]


def show_plain_numbers() -> None:
    """Let NumPy write its numbers without their types in the running IPython, unless it was told how.

    Values stay what they are. ``numpy.set_printoptions(legacy=False)`` brings the types back.
    """
    from IPython import get_ipython

    if get_ipython() is None:
        return
    import numpy

    if numpy.get_printoptions()["legacy"] is False:
        numpy.set_printoptions(legacy=PLAIN_NUMBERS)


def show_number_types() -> None:
    """Undo `show_plain_numbers`."""
    import numpy

    if numpy.get_printoptions()["legacy"] == PLAIN_NUMBERS:
        numpy.set_printoptions(legacy=False)
