"""The streams that keep what ranks print."""

from __future__ import annotations

import io

from labkit.sim import output
from labkit.sim.output import RankOutput, _Stream


def test_a_stream_given_up_after_the_one_behind_it_was_closed():
    """A notebook's, or a test's, standard output may be closed long before a rank's is collected."""
    behind = io.TextIOWrapper(io.BytesIO(), write_through=True)
    stream = _Stream(RankOutput(1), behind)
    stream.write("the hub's own")
    assert behind.buffer.getvalue() == b"the hub's own"
    behind.close()
    stream.close()
    assert stream.closed


def test_a_rank_wraps_the_bytes_of_its_stream(monkeypatch):
    """As scripts do that want UTF-8: what goes in there must not come back to where it came from."""
    kept = RankOutput(2)
    stream = _Stream(kept, io.StringIO())
    for rank in range(2):
        monkeypatch.setattr(output._kernels, "current_rank", lambda rank=rank: rank)
        stream.turned[rank] = io.TextIOWrapper(stream.buffer, encoding="utf-8")
        print("größer", rank, file=stream)
        stream.flush()
        stream.turned[rank].close()
    assert kept.texts() == ["größer 0\n", "größer 1\n"]
