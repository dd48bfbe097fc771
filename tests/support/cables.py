"""Machines of cables between hosts."""

from __future__ import annotations

import labkit as lk


def ring_with_chords(p, chords, bandwidths):
    """Return a ring of hosts with more cables, of bandwidths in Gbps that take turns."""
    pairs = dict.fromkeys([*((i, (i + 1) % p) for i in range(p)), *chords])
    distinct = {(a, b) for a, b in pairs if (a != b and (b, a) not in pairs) or a < b}
    edges = [
        (a, b, {"bw": f"{bandwidths[i % len(bandwidths)]}Gbps"}) for i, (a, b) in enumerate(sorted(distinct))
    ]
    return lk.graph(edges, range(p), bw="10Gbps", lat="1us")
