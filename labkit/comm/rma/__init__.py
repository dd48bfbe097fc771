"""One-sided communication: windows, what is done on them, and what it costs.

The cost model is SMPI's, on the models that simulated messages have (checked against SimGrid 3.32):

================================  ========================================================================
call                              takes
================================  ========================================================================
`Put`, `Rput`                     the origin pays ``ois(n)``, as for Isend; a flow of n bytes starts at
                                  once, from origin to target; the origin goes on
`Get`, `Rget`                     likewise, from target to origin; no message asks for it
`Accumulate`, `Raccumulate`       as `Put`, then as `Flush` of the target: one after another at a target
`Fetch_and_op`, `Get_accumulate`  as `Get`, waited for, then as `Accumulate` (not with NO_OP); a target
                                  serves one origin after another
`Compare_and_swap`                as `Get`, waited for, then as `Put` if the values agree; likewise
`Flush`, `Flush_all`              until the flows between the ranks have ended; ``or(n)`` for each
`Flush_local`                     until what the origin gets has arrived: what it puts is copied immediately
`Fence`                           a barrier (not with MODE_NOPRECEDE), until the flows that end here have
                                  ended, ``or(n)`` for each, and a barrier
`Post`, `Complete`                an empty message to each rank of the group
`Start`, `Wait`                   until the group's empty messages have arrived; `Wait` and `Complete` also
                                  until the flows have ended that this rank waits for
`Lock`, `Lock_all`                nothing, but the time until those that exclude it have unlocked
`Unlock`, `Unlock_all`            as `Flush`; then the next one gets the lock
`Create`, `Allocate`              an allgather of 8 bytes
`Allocate_shared`                 a broadcast of 8 bytes, a barrier, and an allgather of 8 bytes
`Free`                            two barriers
`Sync`, loads and stores          nothing
================================  ========================================================================

What stays on a rank is a copy and takes no time (an `Accumulate` on oneself is a message to oneself). A rank
that calls `Lock`, `Flush` or `Sync` again and again at one instant is polling: from the 64th such call on
each takes 100 ns, so that others come to their turn. Flows share the network with all messages.

What differs from SMPI: there an exclusive lock gets in while others have a shared one, and a lock is handed
on before what was done under it is complete, which MPI forbids both. There a flush or an unlock also waits
for what *others* have put to the rank; `Complete` and an accumulate return later where several ranks meet at
one target, as each locks the list of its requests; and of those that arrive together another is the first.
"""
