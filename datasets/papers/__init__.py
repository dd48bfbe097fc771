"""Tables of published results that labkit's rules are checked against.

``shudler2019``: Tables 4, 5, 6, 7 and 10 of S. Shudler, Y. Berens, A. Calotoiu, T. Hoefler, A. Strube and
F. Wolf, "Engineering Algorithms for Scalability through Continuous Validation of Performance
Expectations", IEEE Transactions on Parallel and Distributed Systems 30(8), 2019,
doi:10.1109/TPDS.2019.2896993.  One row per verdict, as printed: expectation, model, adjusted R^2,
divergence and match.

Two rows of Table 10 (Exact-splitting sort) contradict the paper's own rules and are kept as printed: on
Juqueen p log p against an expected p log^2 p is called exact with a divergence of O(1), and on Lichtenberg
a divergence of p^0.75/log p is called approximate although it exceeds sqrt p.
"""

from __future__ import annotations

from importlib.resources import files

import pandas as pd

__all__ = ["shudler2019"]


def shudler2019() -> pd.DataFrame:
    """Return the 69 printed verdicts.

    Returns
    -------
    DataFrame
        Columns table, machine, function, expectation, model, r2_adjusted, divergence, match.
    """
    with files(__package__).joinpath("shudler2019.csv").open(encoding="utf-8") as stream:
        return pd.read_csv(stream, dtype={"table": int, "expectation": str, "model": str, "divergence": str})
