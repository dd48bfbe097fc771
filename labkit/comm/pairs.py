"""Two messages that are one request: Isendrecv and its kin."""

from __future__ import annotations

from typing import Any

from labkit.comm.buffers import array_of, parse_simple
from labkit.comm.collective.native import refuse_in_recordings, shared_calls
from labkit.comm.handles.constants import ANY_SOURCE, ANY_TAG, PROC_NULL

__all__ = ["BundledMessages"]


class BundledMessages:
    """Calls that begin a send and a receive as one request; its status is the receive's."""

    def Isendrecv(
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
    ) -> Any:
        """Begin to send a buffer and to receive into another one."""
        return self._both("Isendrecv", (recvbuf, source, recvtag), (sendbuf, dest, sendtag))

    def Isendrecv_replace(
        self, buf: Any, dest: int, sendtag: int = 0, source: int = ANY_SOURCE, recvtag: int = ANY_TAG
    ) -> Any:
        """Begin to send a buffer and to receive into the same one: what leaves is a copy."""
        copy = None
        if int(dest) != PROC_NULL:  # a float is cut off, as by mpi4py
            copy = array_of(parse_simple(buf, False)).copy()
        return self._both("Isendrecv_replace", (buf, source, recvtag), (copy, dest, sendtag))

    def _both(self, name: str, receive: tuple[Any, ...], send: tuple[Any, ...]) -> Any:
        calls = shared_calls(name)
        refuse_in_recordings(calls, name)
        return calls.hub.start_messages(self, name, [receive], [send], True)
