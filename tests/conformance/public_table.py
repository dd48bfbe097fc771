"""The document of public programs: what was seen of each, by repository."""

from __future__ import annotations

from collections import Counter
from typing import Any

__all__ = ["table"]

_HEAD = """# Programs of public repositories on simulated ranks

mpi4py programs that nobody of this project wrote, unchanged, on 4 simulated ranks of one host
(`labkit run -n 4 --on star:1,cores=4`) and on real Open MPI. *Same*: both printed the same lines, or the
same lines in any order where ranks print concurrently; times, addresses, names of hosts and the order of
lines aside.
*Differs*: they print the version of MPI, or something that depends on when a message arrives.
`python -m tests.conformance.public` clones the repositories at these commits, runs the programs and writes
this.

"""


def table(repositories: dict[str, dict[str, Any]], results: dict[str, str]) -> str:
    """Return the document.

    Parameters
    ----------
    repositories : dict
        Owner/name -> ``commit`` and ``programs``.
    results : dict
        ``RANKS REPOSITORY PROGRAM`` -> what was seen.
    """
    rows, counts = [], Counter[str]()
    for repository, entry in repositories.items():
        found = {name: results.get(f"4 {repository} {name}", "not run") for name in entry["programs"]}
        counts.update(_kind(text) for text in found.values())
        same = [f"`{name}`" for name, text in found.items() if text == "same"]
        others = [
            f"`{name}`: {_cell(text)}" for name, text in found.items() if text not in ("same", "not run")
        ]
        link = f"[{repository}](https://github.com/{repository})"
        rows.append(f"| {link} | {entry['commit']} | {', '.join(same)} | {'; '.join(others)} |")
    total = sum(counts.values())
    lines = [_HEAD + f"{total} programs of {len(repositories)} repositories:", ""]
    lines += [f"- {kind}: {number}" for kind, number in counts.most_common()]
    lines += ["", "| repository | commit | same | others |", "|---|---|---|---|", *rows]
    many = sorted((key.split(" ", 2), text) for key, text in results.items() if not key.startswith("4 "))
    if many:
        lines += ["", "On many simulated ranks:", ""]
        lines += [
            f"- p = {ranks}: {name} of {repository}: {_cell(text)}"
            for (ranks, repository, name), text in many
        ]
    return "\n".join(lines) + "\n"


def _kind(text: str) -> str:
    return text.split(":")[0].split(" (")[0]


def _cell(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ")
