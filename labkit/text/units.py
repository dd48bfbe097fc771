"""Numbers with units: SI prefixes, three digits."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["format_bytes", "format_count", "format_seconds", "format_share", "number_of_ranks", "ranks_text"]

_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"), (1e-12, "ps"))
_LARGE = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def format_seconds(value_s: float | None) -> str:
    """Write a time with the SI unit that leaves one to three digits before the point.

    Examples
    --------
    >>> format_seconds(0.001234), format_seconds(0.0), format_seconds(75.0)
    ('1.23 ms', '0 s', '75 s')
    """
    if value_s is None or math.isnan(value_s):
        return "–"
    if value_s == 0 or math.isinf(value_s):
        return f"{value_s:g} s"
    for scale, unit in _SECONDS:
        # 0.9995 rounds up to one whole unit: 999.6 µs reads as 1 ms, never as 1e+03 µs.
        if abs(value_s) >= 0.9995 * scale:
            return f"{_three_digits(value_s / scale)} {unit}"
    return f"{value_s:.3g} s"


def format_count(value: float | None) -> str:
    """Write a count whole when it is short, else with an SI prefix.

    Examples
    --------
    >>> format_count(512), format_count(98304), format_count(None)
    ('512', '98.3 k', '–')
    """
    if value is None:
        return "–"
    for scale, prefix in _LARGE:
        if abs(value) >= max(scale, 10_000):
            return f"{_three_digits(value / scale)} {prefix}"
    return f"{value:g}"


def format_bytes(value: float | None) -> str:
    """Write a number of bytes with a decimal (SI) prefix.

    Examples
    --------
    >>> format_bytes(800), format_bytes(1_500_000)
    ('800 B', '1.5 MB')
    """
    if value is None:
        return "–"
    for scale, prefix in _LARGE:
        if abs(value) >= scale:
            return f"{_three_digits(value / scale)} {prefix}B"
    return f"{value:g} B"


def format_share(share: float) -> str:
    """Write a share in percent, with two digits where it is small.

    Examples
    --------
    >>> format_share(0.583), format_share(0.0421), format_share(1.327), format_share(7.1e-7)
    ('58%', '4.2%', '133%', 'under 0.001%')
    """
    if 0 < share < 1e-5:
        return "under 0.001%"
    return f"{share:.0%}" if share >= 0.0995 or share == 0 else f"{float(f'{100 * share:.2g}'):g}%"


def number_of_ranks(ranks: int) -> str:
    """Write a number of ranks.

    Examples
    --------
    >>> number_of_ranks(1), number_of_ranks(4)
    ('1 rank', '4 ranks')
    """
    return f"{ranks} rank{'' if ranks == 1 else 's'}"


def ranks_text(ranks: Sequence[int], most: int = 8) -> str:
    """Name ranks briefly; of more than `most` runs of them only their number is shown.

    Examples
    --------
    >>> ranks_text([3]), ranks_text([0, 1, 2, 5])
    ('rank 3', 'ranks 0-2, 5')
    """
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    parts = [str(a) if a == b else f"{a}-{b}" for a, b in runs]
    if len(parts) > most:
        parts = [*parts[:most], f"... ({len(ranks)} in all)"]
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(parts)}"


def _three_digits(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 999.5 else f"{value:.3g}"
