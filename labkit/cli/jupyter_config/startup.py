"""Runs before the first cell of a kernel of ``labkit lab``: ``%%spmd`` called too early says what it needs.

It does not load labkit: a notebook that lacks the import would then run here and nowhere else.
"""

from __future__ import annotations


def _offer_spmd() -> None:
    try:
        from IPython import get_ipython
        from IPython.core.error import UsageError
    except ImportError:  # a plain Python in a terminal of JupyterLab
        return
    shell = get_ipython()
    if shell is None:
        return

    def spmd(line: str, cell: str | None = None) -> None:
        """Run a cell on every rank of a machine; there after ``import labkit as lk``."""
        raise UsageError("%%spmd comes with labkit: run a cell `import labkit as lk` first")

    spmd.is_too_early = True  # type: ignore[attr-defined]  # labkit puts its own in this place
    shell.register_magic_function(spmd, "line_cell", "spmd")


_offer_spmd()
del _offer_spmd
