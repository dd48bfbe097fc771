"""The catalogue of guidelines for MPI's collectives, with their sources.

The size n is in bytes: what the root has (bcast), what each rank has (reductions, scans), or a block (gather,
scatter, allgather, alltoall, and of reduce_scatter_block what a rank gets).

References
----------
.. [1] J. L. Träff, W. D. Gropp, R. Thakur: Self-consistent MPI performance guidelines. IEEE TPDS 21(5), 2010.
   doi:10.1109/TPDS.2009.120
.. [2] S. Hunold, A. Carpen-Amarie: Autotuning MPI collectives using performance guidelines. HPC Asia 2018.
   doi:10.1145/3149457.3149461
.. [3] S. Shudler et al.: Engineering algorithms for scalability through continuous validation of performance
   expectations. IEEE TPDS 30(8), 2019. doi:10.1109/TPDS.2019.2896993
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable

from labkit.errors import ExpectationError
from labkit.study.guidelines.statement import Statement, read_statement

__all__ = ["CATALOGUE", "KINDS", "catalogue"]

_TRAEFF, _HUNOLD = "Träff, Gropp, Thakur 2010", "Hunold, Carpen-Amarie 2018"
_BOTH = f"{_TRAEFF}; {_HUNOLD}"

#: kinds, and what each says
KINDS = {
    "pattern": "an operation takes no longer than a composition of others that does the same",
    "special": "an operation takes no longer than a more general one",
    "monotony": "a shorter message, or fewer ranks, take no longer",
    "split": "a message takes no longer than its pieces one after the other",
}

_PATTERNS = {
    "allgather <= gather + bcast(n p)": f"{_BOTH}; Shudler et al. 2019",
    "allreduce <= reduce + bcast": f"{_BOTH}; Shudler et al. 2019",
    "allreduce <= reduce_scatter_block(n/p) + allgather(n/p)": _BOTH,
    "allreduce <= reduce_scatter(n/p) + allgatherv(n/p)": _HUNOLD,
    "bcast <= scatter(n/p) + allgather(n/p)": _BOTH,
    "reduce <= reduce_scatter_block(n/p) + gather(n/p)": _BOTH,
    "reduce <= reduce_scatter(n/p) + gatherv(n/p)": _HUNOLD,
    "reduce_scatter_block <= reduce(n p) + scatter": _BOTH,
    "reduce_scatter <= reduce(n p) + scatterv": _HUNOLD,
    "scan <= exscan + reduce_local": _HUNOLD,
}
_SPECIALS = {
    "allgather <= alltoall": _BOTH,
    "allgather <= allreduce(n p)": _HUNOLD,
    "allgather <= allgatherv": _BOTH,
    "alltoall <= alltoallv": _BOTH,
    "bcast <= allgatherv_of_one": _HUNOLD,
    "gather <= allgather": _BOTH,
    "gather <= gatherv": _BOTH,
    "gather <= reduce(n p)": _HUNOLD,
    "reduce <= allreduce": _BOTH,
    "reduce_scatter_block <= reduce_scatter": _BOTH,
    "reduce_scatter_block <= allreduce(n p)": _HUNOLD,
    "scatter <= bcast(n p)": _BOTH,
    "scatter <= scatterv": _BOTH,
    "barrier <= allreduce(8)": "every rank of an allreduce has waited for all others",
}
_SIZED = (
    "allgather", "allreduce", "alltoall", "bcast", "exscan", "gather", "reduce", "reduce_scatter_block",
    "scan", "scatter",
)  # fmt: skip


def _catalogue() -> list[Statement]:
    found = [read_statement(text, "pattern", source) for text, source in _PATTERNS.items()]
    found += [read_statement(text, "special", source) for text, source in _SPECIALS.items()]
    for name in _SIZED:
        found.append(read_statement(f"{name} <= {name}(2n)", "monotony", _TRAEFF))
        found.append(read_statement(f"{name}(n) <= 4 {name}(n/4)", "split", _TRAEFF))
    for name in ("barrier", *_SIZED):
        found.append(read_statement(f"{name} <= {name}(n, 2p)", "monotony", _TRAEFF))
    return found


#: every guideline
CATALOGUE: tuple[Statement, ...] = tuple(_catalogue())


def catalogue(only: str | Statement | Iterable[str | Statement] | None = None) -> list[Statement]:
    """Return guidelines: all, those of some kinds or operations, or statements of one's own.

    Parameters
    ----------
    only : str, Statement or list of them, optional
        Kinds (`KINDS`), operations (``"bcast"``, ``"all*"``: the left side), or statements with "<=".

    Raises
    ------
    ExpectationError
        A word that names nothing; the message says what there is.

    Examples
    --------
    >>> [str(one) for one in catalogue("allreduce")][:2]
    ['allreduce <= reduce + bcast', 'allreduce <= reduce_scatter_block(n/p) + allgather(n/p)']
    """
    if only is None:
        return list(CATALOGUE)
    found: list[Statement] = []
    for word in [only] if isinstance(only, str | Statement) else only:
        if isinstance(word, Statement) or "<=" in str(word) or "≤" in str(word):
            same = [one for one in CATALOGUE if str(one) == str(read_statement(word))]
            found += same or [read_statement(word)]
            continue
        name = str(word).strip().lower()
        some = [one for one in CATALOGUE if name == one.kind or fnmatch.fnmatch(one.left.name, name)]
        if not some:
            names = ", ".join(dict.fromkeys(one.left.name for one in CATALOGUE))
            raise ExpectationError(
                f"no guideline is called {word!r}; there are kinds ({', '.join(KINDS)}), operations "
                f"({names}) "
                'and statements such as "allreduce <= reduce + bcast"'
            )
        found += some
    return list(dict.fromkeys(found))
