"""IN_PLACE and BOTTOM: marks that stand where a buffer would."""

from __future__ import annotations

from typing import Any

from labkit.comm.handles import MODULE_NAME

__all__ = ["IN_PLACE", "SPECIAL", "InPlaceType", "is_in_place"]


class InPlaceType(int):
    """Type of IN_PLACE."""

    __module__ = MODULE_NAME

    def __new__(cls) -> InPlaceType:
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


SPECIAL: dict[str, Any] = {"IN_PLACE": IN_PLACE, "InPlaceType": InPlaceType}
