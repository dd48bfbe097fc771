"""Epochs of a window: fences, post and start, locks, flushes."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from labkit.comm.handles.constants import CONSTANTS
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.groups import Group
from labkit.comm.handles.status import Request
from labkit.comm.place import here
from labkit.comm.rma.base import Now, WindowBase, wrong_sync
from labkit.comm.rma.state import Stores
from labkit.phantom import is_sized

__all__ = ["Synchronisation"]

_ERR_GROUP, _ERR_LOCKTYPE = 9, 37
_NOPRECEDE, _NOSUCCEED = CONSTANTS["MODE_NOPRECEDE"], CONSTANTS["MODE_NOSUCCEED"]
_EXCLUSIVE, _SHARED = CONSTANTS["LOCK_EXCLUSIVE"], CONSTANTS["LOCK_SHARED"]
_POSTED, _COMPLETED = 4, 5  # tags


class Synchronisation(WindowBase):
    """The synchronisation calls of a window."""

    __slots__ = ()

    # --- fences -----------------------------------------------------------------------------------

    def Fence(self, assertion: int = 0) -> None:
        """End an epoch of the whole window, and begin one (not with MODE_NOSUCCEED)."""
        now = self._now("Fence")
        epoch = now.part.epoch
        if epoch.is_passive:
            raise wrong_sync("Fence while this rank holds a lock of the window: Unlock first")
        if epoch.targets is not None or epoch.origins is not None:
            raise wrong_sync("Fence between Start and Complete, or Post and Wait")
        if not assertion & _NOPRECEDE:
            self._barrier(now)
            self._finish(now, now.me, None)
            now.state.note_stores(now.calls.note_fault, now.me)
            now.part.accesses.close()
            now.part.touched.clear()
        self._barrier(now)
        epoch.is_fenced = not assertion & _NOSUCCEED
        if now.calls.looks_at_stores:
            memory = now.part.memory
            is_own = epoch.is_fenced and memory.size and not is_sized(memory) and now.state.block is None
            now.part.stores = Stores(memory, here()) if is_own else None

    # --- post, start, complete, wait ----------------------------------------------------------------

    def Post(self, group: Group, assertion: int = 0) -> None:
        """Let the ranks of a group access this rank's part."""
        now = self._now("Post")
        if now.part.epoch.origins is not None:
            raise wrong_sync("Post while an exposure epoch is open: Wait for it first")
        origins = self._ranks_of(now, group)
        self._tell(now, origins, _POSTED)
        now.part.epoch.origins = origins

    def Start(self, group: Group, assertion: int = 0) -> None:
        """Begin to access the parts of a group's ranks: wait until they have posted."""
        now = self._now("Start")
        epoch = now.part.epoch
        if epoch.targets is not None or epoch.is_passive:
            raise wrong_sync("Start while an access epoch is open: Complete or Unlock first")
        targets = self._ranks_of(now, group)
        Request.Waitall(self._hear(now, targets, _POSTED))
        epoch.targets = targets

    def Complete(self) -> None:
        """End what `Start` began."""
        now = self._now("Complete")
        targets = now.part.epoch.targets
        if targets is None:
            raise wrong_sync("Complete without Start")
        self._tell(now, targets, _COMPLETED)
        self._finish(now, now.me, None)
        now.part.epoch.targets = None
        for rank in targets:
            now.part.touched.pop(rank, None)

    def Wait(self) -> Literal[True]:
        """End what `Post` began: wait until the group's ranks have completed."""
        now = self._now("Wait")
        arriving = self._arriving(now)
        Request.Waitall(arriving)
        self._end_exposure(now)
        return True

    def Test(self) -> bool:
        """Whether `Wait` would return at once; then it does what that does."""
        now = self._now("Test")
        arriving = now.part.epoch.arriving = self._arriving(now)
        if not Request.Testall(arriving):
            return False
        self._end_exposure(now)
        return True

    def _arriving(self, now: Now) -> list[Any]:
        origins = now.part.epoch.origins
        if origins is None:
            raise wrong_sync(f"{now.name} without Post")
        known = now.part.epoch.arriving
        return self._hear(now, origins, _COMPLETED) if known is None else known

    def _end_exposure(self, now: Now) -> None:
        self._finish(now, now.me, None)
        now.part.accesses.close()
        now.part.epoch.origins = now.part.epoch.arriving = None

    @staticmethod
    def _ranks_of(now: Now, group: Group) -> tuple[int, ...]:
        if not isinstance(group, Group):
            raise TypeError(f"group: expected a Group, got {type(group).__name__}")
        places = {world: rank for rank, world in enumerate(now.state.world)}
        strangers = [world for world in group._members() if world not in places]
        if strangers:
            raise MPIException(
                _ERR_GROUP, f"{now.name}: the group has {len(strangers)} ranks that the window lacks"
            )
        return tuple(places[world] for world in group._members())

    def _tell(self, now: Now, ranks: tuple[int, ...], tag: int) -> None:
        for rank in ranks:
            if rank != now.me:
                self._comm.Send(np.empty(0, np.uint8), rank, tag)

    def _hear(self, now: Now, ranks: tuple[int, ...], tag: int) -> list[Any]:
        return [self._comm.Irecv(np.empty(0, np.uint8), rank, tag) for rank in ranks if rank != now.me]

    # --- locks --------------------------------------------------------------------------------------

    def Lock(self, rank: int, lock_type: int = _EXCLUSIVE, assertion: int = 0) -> None:
        """Begin to access a rank's part, alone (LOCK_EXCLUSIVE) or with others (LOCK_SHARED)."""
        now = self._now("Lock")
        self._check_rank(now, rank)
        epoch = now.part.epoch
        if lock_type not in (_EXCLUSIVE, _SHARED):
            raise MPIException(
                _ERR_LOCKTYPE, f"lock_type={lock_type} is not allowed: LOCK_EXCLUSIVE or LOCK_SHARED"
            )
        if rank in epoch.locked or epoch.is_all is not None:
            raise wrong_sync(f"Lock of rank {rank}, of which this rank has a lock already")
        if epoch.targets is not None:
            raise wrong_sync("Lock between Start and Complete")
        self._poll(now)
        self._take(now, rank, lock_type == _EXCLUSIVE)
        epoch.locked[rank] = here()
        epoch.is_fenced = False
        self._flush(now, rank)

    def Unlock(self, rank: int) -> None:
        """Complete what was done under a lock, and give it back."""
        now = self._now("Unlock")
        self._check_rank(now, rank)
        if rank not in now.part.epoch.locked:
            raise wrong_sync(f"Unlock of rank {rank}, of which this rank has no lock")
        self._flush(now, rank)
        del now.part.epoch.locked[rank]
        now.state.locks.unlock(now.hub, now.me, rank)

    def Lock_all(self, assertion: int = 0) -> None:
        """Begin to access all ranks' parts, with others."""
        now = self._now("Lock_all")
        epoch = now.part.epoch
        if epoch.is_passive:
            raise wrong_sync("Lock_all while this rank has a lock of the window already")
        if epoch.targets is not None:
            raise wrong_sync("Lock_all between Start and Complete")
        self._poll(now)
        self._take(now, None, False)
        epoch.is_all = here()
        epoch.is_fenced = False

    def Unlock_all(self) -> None:
        """Complete what was done, and give the locks back."""
        now = self._now("Unlock_all")
        if now.part.epoch.is_all is None:
            raise wrong_sync("Unlock_all without Lock_all")
        self._flush_all(now)
        now.part.epoch.is_all = None
        now.state.locks.unlock(now.hub, now.me, None)

    def _take(self, now: Now, rank: int | None, is_exclusive: bool) -> None:
        waiting = now.calls.waiting_for_locks
        world = now.world(now.me)
        waiting[world] = (now.state, rank)
        now.state.locks.lock(now.hub, now.me, rank, is_exclusive, now.name)
        del waiting[world]

    # --- flushes --------------------------------------------------------------------------------------

    def Flush(self, rank: int) -> None:
        """Complete what was begun with a rank, at both sides."""
        now = self._passive("Flush", rank)
        self._poll(now)
        self._flush(now, rank)

    def Flush_all(self) -> None:
        """Complete what was begun with any rank, at both sides."""
        now = self._passive("Flush_all", None)
        self._poll(now)
        self._flush_all(now)

    def Flush_local(self, rank: int) -> None:
        """Complete what was begun with a rank, at this side."""
        now = self._passive("Flush_local", rank)
        self._poll(now)
        self._finish(now, now.me, rank, now.me)

    def Flush_local_all(self) -> None:
        """Complete what was begun with any rank, at this side."""
        now = self._passive("Flush_local_all", None)
        self._poll(now)
        self._finish(now, now.me, None, now.me)

    def Sync(self) -> None:
        """Make the window's own copy and the memory agree: there is but one, so it only lets others go on."""
        self._poll(self._now("Sync"))

    def _passive(self, name: str, rank: int | None) -> Now:
        now = self._now(name)
        epoch = now.part.epoch
        if rank is not None:
            self._check_rank(now, rank)
        if epoch.is_all is None and (rank not in epoch.locked if rank is not None else not epoch.locked):
            whom = "" if rank is None else f" of rank {rank}"
            raise wrong_sync(f"{name}{whom} without a lock of it: call Lock or Lock_all before it")
        return now

    def _flush_all(self, now: Now) -> None:
        self._finish(now, now.me, None, now.me)
        for rank in list(now.part.touched):
            self._flush(now, rank)
