"""Recompute every verdict printed by Shudler et al. (TPDS 2019), Tables 4 to 7 and 10."""

from __future__ import annotations

import pytest

from labkit.datasets.papers import shudler2019
from labkit.scaling import check_guideline, deviation_for, match, read_expectation

SLIPS = {
    ("Juqueen", "Exact-splitting"): ("1/log p", "approximate"),
    ("Lichtenberg", "Exact-splitting"): ("p^0.75/log p", "none"),
}
ROWS = list(shudler2019().itertuples(index=False))


def recompute(row: object) -> tuple[str, str]:
    e = read_expectation(row.expectation).term  # type: ignore[attr-defined]
    g = read_expectation(row.model, e.symbol).term  # type: ignore[attr-defined]
    return str(g.over(e).named(e.symbol)), match(g, e, deviation_for(e).term)


def test_there_are_69_verdicts() -> None:
    assert len(ROWS) == 69


@pytest.mark.parametrize("row", ROWS, ids=[f"{r.table}-{r.machine}-{r.function}" for r in ROWS])
def test_the_printed_verdict_follows_from_the_rules(row: object) -> None:
    slip = SLIPS.get((row.machine, row.function)) if row.table == 10 else None  # type: ignore[attr-defined]
    printed = (row.divergence, row.match)  # type: ignore[attr-defined]
    if slip:
        assert printed != slip, "the table prints what its own rules do not give"
        assert recompute(row) == slip
    else:
        assert recompute(row) == printed


def test_67_agree() -> None:
    assert sum(recompute(row) == (row.divergence, row.match) for row in ROWS) == 67


@pytest.mark.parametrize(
    ("left", "right"), [("Allreduce", ("Reduce", "Bcast")), ("Allgather", ("Gather", "Bcast"))]
)
@pytest.mark.parametrize("machine", ["Juqueen", "Juropa", "Piz Daint"])
def test_guidelines_are_violated_on_piz_daint_only(left: str, right: tuple[str, str], machine: str) -> None:
    terms = {r.function: read_expectation(r.model).term for r in ROWS if (r.table, r.machine) == (4, machine)}
    outcome = check_guideline(terms[left], [terms[r] for r in right])
    assert outcome.is_violated == (machine == "Piz Daint")
