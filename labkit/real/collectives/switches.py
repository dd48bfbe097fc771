"""The library's own algorithms, forced by its switches: MCA parameters of Open MPI.

``allreduce=library:ring`` asks for the MPI library's ring, by labkit's name for it. Which of Open MPI's
numbers that is stands in ``datasets/selectors/ompi_names.toml``. Its component `tuned` is then preferred to
the others that this host has.
"""

from __future__ import annotations

from collections.abc import Mapping

from labkit.errors import MachineError
from labkit.selector.libraries import LIBRARIES, names_table, settings_of

__all__ = ["environment_of", "notes_of"]

#: a setting of labkit's -> what Open MPI's parameter of an algorithm is called
_SETTINGS = {"segment_bytes": "segmentsize", "chains": "chain_fanout"}


def environment_of(forced: Mapping[str, str], kind: str) -> dict[str, str]:
    """Return the environment that makes the library take these algorithms.

    Parameters
    ----------
    forced : mapping of str to str
        Collective to the name of labkit's algorithm, parameters behind colons.
    kind : str
        Of the launcher: ``"openmpi"``.

    Raises
    ------
    MachineError
        The library has no such switches, or no such algorithm; the message lists those that it has.

    Examples
    --------
    >>> environment_of({"allreduce": "ring"}, "openmpi")["OMPI_MCA_coll_tuned_allreduce_algorithm"]
    '4'
    """
    if not forced:
        return {}
    if kind != "openmpi":
        raise MachineError(
            "library:... forces algorithms by the switches of Open MPI, and this is another MPI; take "
            "labkit's own (allreduce=ring), or choose Open MPI with LABKIT_MPI"
        )
    found = {"coll_tuned_use_dynamic_rules": "1", "coll_tuned_priority": "100"}
    table = names_table("ompi")
    for operation, name in forced.items():
        base, settings = settings_of(name)
        numbers = table.get(operation, {}).get("algorithms", {})
        if base not in numbers:
            has = f"it has {', '.join(numbers)}" if numbers else f"it has switches for {', '.join(table)}"
            raise MachineError(f"{LIBRARIES['ompi']} has no switch for {operation}={base}; {has}")
        found[f"coll_tuned_{operation}_algorithm"] = str(numbers[base])
        for key, value in settings.items():
            if key not in _SETTINGS:
                raise MachineError(
                    f"{LIBRARIES['ompi']}'s {operation} has no switch for {key}; there are "
                    f"{', '.join(_SETTINGS)}"
                )
            found[f"coll_tuned_{operation}_algorithm_{_SETTINGS[key]}"] = str(value)
    return {f"OMPI_MCA_{key}": value for key, value in found.items()}


def notes_of(forced: Mapping[str, str]) -> list[str]:
    """Say what was forced."""
    return [
        f"{operation} takes the library's own {name}, by its switch" for operation, name in forced.items()
    ]
