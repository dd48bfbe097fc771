"""IN_PLACE and BOTTOM: marks that stand where a buffer would."""

from __future__ import annotations

from typing import Any

from labkit.comm.handles.base import MODULE_NAME

__all__ = ["BOTTOM", "IN_PLACE", "SPECIAL", "BottomType", "InPlaceType", "is_in_place"]


class InPlaceType(int):
    """Type of IN_PLACE."""

    __module__ = MODULE_NAME

    def __new__(cls) -> InPlaceType:
        """Make the one there is."""
        return super().__new__(cls, -1)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return "labkit.MPI.IN_PLACE"

    def __reduce__(self) -> Any:
        return "IN_PLACE"


IN_PLACE = InPlaceType()


def is_in_place(message: Any) -> bool:
    """Whether a buffer argument says that the data lies in the other buffer (None counts, as in mpi4py)."""
    return message is IN_PLACE or message is None


class BottomType(int):
    """Type of BOTTOM."""

    __module__ = MODULE_NAME

    def __new__(cls) -> BottomType:
        """Make the one there is."""
        return super().__new__(cls, 0)

    def __repr__(self) -> str:
        return "labkit.MPI.BOTTOM"

    def __reduce__(self) -> Any:
        return "BOTTOM"


BOTTOM = BottomType()

SPECIAL: dict[str, Any] = {
    "BOTTOM": BOTTOM,
    "BottomType": BottomType,
    "IN_PLACE": IN_PLACE,
    "InPlaceType": InPlaceType,
}
