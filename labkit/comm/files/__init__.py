"""Files of MPI-IO, on this host's file system, and what they cost in a simulated run.

The storage model: all files are on one file server that every host reaches alike and that shares no link
with messages. A request takes a latency, and then its bytes pass the server at a bandwidth, one request after
another in the order in which they were made. A request of n bytes that is made at t is over at

    max(t + latency, the end of the one before) + n / bandwidth

`storage=` of a run sets both: ``lk.run(..., storage="bw=2GBps,lat=500us")``, or ``labkit run --storage
bw=2GBps,lat=500us``. They are 1 GB/s and 1 ms where nothing is said.

===================================  =====================================================================
call                                 takes
===================================  =====================================================================
`Read`, `Write`, `_at`, `Delete`     one request
`Iread`, `Iwrite`, ...               one request that runs concurrently with the rank
`_shared`                            two latencies, as the pointer is fetched first; who comes first in
                                     simulated time comes first in the file
`_all`, `_at_all`                    a barrier, then all ranks' bytes as one request, over for all together
split, ``_begin`` and ``_end``       the same; between the two the ranks go on
`_ordered`                           an allgather of 8 bytes, and then all ranks' bytes as one request
`Open`, `Close`, `Sync`,             a barrier and one request without bytes
`Set_size`, `Preallocate`
`Set_view`                           two barriers
`Seek_shared`                        two barriers
`Set_atomicity`                      a barrier
what asks for something, `Seek`      nothing
===================================  =====================================================================

Gaps that a view leaves out take no time; neither does what a collective call exchanges so that each rank gets
its own bytes. Bytes are read and written when their request is made.
"""
