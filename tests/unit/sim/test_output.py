"""The streams that keep what ranks print."""

from __future__ import annotations

import io

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
