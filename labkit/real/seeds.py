"""The random numbers of a rank: the same on every machine, different on every rank."""

from __future__ import annotations

import importlib.util
import sys

TYPE_CHECKING = False  # as in typing, which every rank would import for this alone
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

__all__ = ["seed_rank"]


def seed_rank(seed: int, rank: int) -> None:
    """Seed this process's global generators for a rank, as the simulator does for its ranks.

    ``random`` and ``numpy.random`` get states of their own, and ``numpy.random.default_rng()`` without a seed
    one that repeats instead of the operating system's. Neither is imported for that: what is not there yet
    is seeded when the program imports it.
    """
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _SeedsOnImport)]
    for name, seeds in (("random", _seed_random), ("numpy.random", _seed_numpy)):
        module = sys.modules.get(name)
        if module is None:
            sys.meta_path.insert(0, _SeedsOnImport(name, seeds, seed, rank))
        else:
            seeds(module, seed, rank)


class _SeedsOnImport:
    """A finder of one module alone, which is seeded as soon as it is there."""

    def __init__(self, name: str, seeds: Callable[[Any, int, int], None], seed: int, rank: int) -> None:
        self.name, self.seeds = name, seeds
        self.seed, self.rank = seed, rank

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find it as if this finder were not there, and have its loader seed it."""
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self.seeds(module, self.seed, self.rank)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _seed_random(module: Any, seed: int, rank: int) -> None:
    if hasattr(module, "seed"):  # else a file of the program's own has this name
        module.seed(f"{seed}:{rank}")


def _seed_numpy(module: Any, seed: int, rank: int) -> None:
    module.seed(module.SeedSequence([abs(seed), rank]).generate_state(8))
    original = getattr(module.default_rng, "original", module.default_rng)
    fresh, run_seed = 0, seed

    def default_rng(seed: Any = None) -> Any:
        nonlocal fresh
        if seed is None:
            fresh += 1
            seed = module.SeedSequence([abs(run_seed), rank, fresh])
        return original(seed)

    default_rng.__doc__ = original.__doc__
    default_rng.original = original  # type: ignore[attr-defined]
    module.default_rng = default_rng
