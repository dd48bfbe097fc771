"""Old names of modules: those of version 0.1 still import, with a warning, for one version.

Saved studies, bundles and pickles name the modules of their classes; they are found by the same table.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
import warnings
from types import CodeType, ModuleType

TYPE_CHECKING = False  # as in typing, which every rank would import for this alone
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.abc import Loader, MetaPathFinder
    from typing import Any
else:  # these classes bring importlib.resources along: a third of the time that `import labkit` takes
    Loader = MetaPathFinder = object

__all__ = ["current_name", "find_moved", "moved_attribute"]

#: old name of a module or package -> its name today; what a package holds moved with it, unless listed itself
MOVED = {
    "labkit.batch": "labkit.real.slurm",
    "labkit.batch.collecting": "labkit.real.slurm.collect",
    "labkit.batch.front": "labkit.real.slurm.machine",
    "labkit.batch.listing": "labkit.real.slurm.jobs",
    "labkit.batch.sweeping": "labkit.real.slurm.submit",
    "labkit.batch.waiting": "labkit.real.slurm.watch",
    "labkit.bundle": "labkit.study.bundle",
    "labkit.bundle.carrying": "labkit.study.bundle.functions",
    "labkit.bundle.comparing": "labkit.study.bundle.verify_bundle",
    "labkit.bundle.reading": "labkit.study.bundle.reader",
    "labkit.bundle.rerunning": "labkit.study.bundle.rerun",
    "labkit.bundle.surroundings": "labkit.study.bundle.provenance",
    "labkit.bundle.verifying": "labkit.study.bundle.verify_bundle",
    "labkit.bundle.writing": "labkit.study.bundle.writer",
    "labkit.calibration.fitting": "labkit.calibration.fit",
    "labkit.calibration.front": "labkit.calibration.calibrate",
    "labkit.calibration.writing": "labkit.calibration.files",
    "labkit.cli.checks": "labkit.cli.doctor_checks",
    "labkit.comm.actions": "labkit.comm.collective.actions",
    "labkit.comm.binding": "labkit.comm.collective.engine_messages",
    "labkit.comm.bundles": "labkit.comm.pairs",
    "labkit.comm.calls": "labkit.comm.collective.calls",
    "labkit.comm.collectives": "labkit.comm.collective.collectives",
    "labkit.comm.constants": "labkit.comm.handles.constants",
    "labkit.comm.datatypes": "labkit.comm.handles.datatypes",
    "labkit.comm.errhandlers": "labkit.comm.handles.errhandlers",
    "labkit.comm.exceptions": "labkit.comm.handles.exceptions",
    "labkit.comm.graphs": "labkit.comm.topology.graphs",
    "labkit.comm.grid": "labkit.comm.topology.grid",
    "labkit.comm.groups": "labkit.comm.handles.groups",
    "labkit.comm.handles": "labkit.comm.handles.base",
    "labkit.comm.info": "labkit.comm.handles.info",
    "labkit.comm.making": "labkit.comm.create",
    "labkit.comm.native": "labkit.comm.collective.native",
    "labkit.comm.neighbors": "labkit.comm.collective.neighbors",
    "labkit.comm.nonblocking": "labkit.comm.collective.collectives",
    "labkit.comm.objects": "labkit.comm.collective.objects",
    "labkit.comm.operators": "labkit.comm.handles.operators",
    "labkit.comm.persistent": "labkit.comm.collective.persistent",
    "labkit.comm.prequest": "labkit.comm.collective.prequest",
    "labkit.comm.quick": "labkit.comm.collective.quick",
    "labkit.comm.reductions": "labkit.comm.collective.makers",
    "labkit.comm.special": "labkit.comm.handles.special",
    "labkit.comm.status": "labkit.comm.handles.status",
    "labkit.comm.topologies": "labkit.comm.topology.topologies",
    "labkit.comm.tree": "labkit.comm.collective.tree",
    "labkit.demo": "labkit.cli.demo",
    "labkit.grading.sandbox.containment": "labkit.process.confinement.containment",
    "labkit.grading.sandbox.landlock": "labkit.process.confinement.landlock",
    "labkit.grading.sandbox.seccomp": "labkit.process.confinement.seccomp",
    "labkit.hollow": "labkit.phantom",
    "labkit.jupyter.packing": "labkit.jupyter.archive",
    "labkit.jupyter.saving": "labkit.jupyter.save_work",
    "labkit.local.calibration": "labkit.local.costs",
    "labkit.markup": "labkit.html",
    "labkit.offline": "labkit.sim.offline",
    "labkit.offline.goal": "labkit.sim.goal",
    "labkit.offline.numbering": "labkit.trace.formats.communicators",
    "labkit.offline.reading": "labkit.trace.formats.ti_reader",
    "labkit.offline.real": "labkit.trace.recorder",
    "labkit.offline.real.gathering": "labkit.trace.recorder.merge",
    "labkit.offline.real.staging": "labkit.trace.recorder.session",
    "labkit.offline.replaying": "labkit.sim.replay",
    "labkit.offline.text": "labkit.trace.formats.text",
    "labkit.offline.writing": "labkit.trace.formats.ti_writer",
    "labkit.run.cluster": "labkit.real.engines.machine",
    "labkit.run.cluster_call": "labkit.real.engines.call",
    "labkit.run.cluster_comm": "labkit.real.engines.comm",
    "labkit.run.cluster_engine": "labkit.real.engines.engine",
    "labkit.run.cluster_guard": "labkit.real.engines.guard",
    "labkit.run.cluster_objects": "labkit.real.engines.comm",
    "labkit.run.cluster_remote": "labkit.real.engines.remote",
    "labkit.run.cluster_report": "labkit.real.engines.report",
    "labkit.run.cluster_stage": "labkit.real.engines.stage",
    "labkit.run.cluster_start": "labkit.real.engines.start",
    "labkit.run.cluster_target": "labkit.real.engines.target",
    "labkit.run.cluster_waits": "labkit.real.engines.waits",
    "labkit.run.cluster_watch": "labkit.real.engines.watch",
    "labkit.run.cluster_watchdog": "labkit.real.engines.watchdog",
    "labkit.result_html": "labkit.result.html",
    "labkit.run.cores": "labkit.real.cores",
    "labkit.run.front": "labkit.run",
    "labkit.run.gathering": "labkit.real.shares",
    "labkit.run.html": "labkit.result.html",
    "labkit.run.lifeline": "labkit.process.watchdog",
    "labkit.run.mpi": "labkit.real.mpi.machine",
    "labkit.run.mpi_child": "labkit.real.mpi.child",
    "labkit.run.mpi_context": "labkit.real.context",
    "labkit.run.mpi_endings": "labkit.real.mpi.endings",
    "labkit.run.mpi_env": "labkit.real.mpi.environment",
    "labkit.run.mpi_find": "labkit.real.mpi.find",
    "labkit.run.mpi_hosts": "labkit.real.mpi.hosts",
    "labkit.run.mpi_job": "labkit.real.mpi.launch",
    "labkit.run.mpi_messages": "labkit.real.mpi.messages",
    "labkit.run.mpi_report": "labkit.real.mpi.report",
    "labkit.run.mpi_stacks": "labkit.process.stacks",
    "labkit.run.options": "labkit.options",
    "labkit.run.place": "labkit.place",
    "labkit.run.printed": "labkit.printed",
    "labkit.run.processes": "labkit.process.tree",
    "labkit.run.result": "labkit.result",
    "labkit.run.seeding": "labkit.real.seeds",
    "labkit.run.tolerance": "labkit.tolerance",
    "labkit.run.travel": "labkit.real.travel",
    "labkit.run.units": "labkit.units",
    "labkit.run.whereabouts": "labkit.process.whereabouts",
    "labkit.scaling.judging": "labkit.scaling.judgement",
    "labkit.schedule.native": "labkit.sim.schedules",
    "labkit.schedule.quotient": "labkit.sim.quotient",
    "labkit.sim.code": "labkit.sim.isolation.code",
    "labkit.sim.constancy": "labkit.sim.isolation.constancy",
    "labkit.sim.copy_rules": "labkit.sim.isolation.copy_rules",
    "labkit.sim.copying": "labkit.sim.isolation.deep_copy",
    "labkit.sim.isolation": "labkit.sim.isolation.isolation",
    "labkit.sim.layout": "labkit.platform.drawing",
    "labkit.sim.layout.base": "labkit.platform.drawing",
    "labkit.sim.layout.joints": "labkit.platform.zones.joints",
    "labkit.sim.layout.svg": "labkit.platform.drawing",
    "labkit.sim.layout.zones": "labkit.platform.zones.drawing",
    "labkit.sim.machines": "labkit.platform.machines",
    "labkit.sim.mapping": "labkit.platform.mapping",
    "labkit.sim.measures": "labkit.platform.measure",
    "labkit.sim.measures.bisection": "labkit.platform.measure",
    "labkit.sim.measures.diameter": "labkit.platform.measure",
    "labkit.sim.measures.link_names": "labkit.platform.link_names",
    "labkit.sim.measures.links": "labkit.platform.measure",
    "labkit.sim.model_file": "labkit.platform.model_file",
    "labkit.sim.models": "labkit.platform.models",
    "labkit.sim.mpi4py_name": "labkit.sim.isolation.mpi4py_name",
    "labkit.sim.nearest": "labkit.platform.nearest",
    "labkit.sim.noise": "labkit.platform.noise",
    "labkit.sim.platform": "labkit.platform.platform",
    "labkit.sim.randomness": "labkit.sim.isolation.randomness",
    "labkit.sim.rank_pickle": "labkit.sim.isolation.rank_pickle",
    "labkit.sim.rank_world": "labkit.sim.isolation.rank_world",
    "labkit.sim.show": "labkit.platform.show",
    "labkit.sim.spec": "labkit.platform.spec",
    "labkit.sim.spec.dragonfly": "labkit.platform.topologies.dragonfly",
    "labkit.sim.spec.fat_tree": "labkit.platform.topologies.fat_tree",
    "labkit.sim.spec.star": "labkit.platform.topologies.star",
    "labkit.sim.spec.torus": "labkit.platform.topologies.torus",
    "labkit.sim.units": "labkit.platform.quantities",
    "labkit.sim.xml_builder": "labkit.platform.xml.builder",
    "labkit.sim.xml_cluster": "labkit.platform.xml.cluster",
    "labkit.sim.xml_cluster_reader": "labkit.platform.xml.cluster_reader",
    "labkit.sim.xml_config": "labkit.platform.xml.config",
    "labkit.sim.xml_grammar": "labkit.platform.xml.grammar",
    "labkit.sim.xml_reader": "labkit.platform.xml.reader",
    "labkit.sim.xml_units": "labkit.platform.quantities",
    "labkit.sim.xml_writer": "labkit.platform.xml.writer",
    "labkit.sim.xml_zones": "labkit.platform.zones.to_xml",
    "labkit.sim.zones": "labkit.platform.zones",
    "labkit.study.measuring": "labkit.study.measure",
    "labkit.study.files": "labkit.study.formats.reader",
    "labkit.study.reading": "labkit.study.formats.reader",
    "labkit.study.selecting": "labkit.study.selection",
    "labkit.study.setting": "labkit.study.worker_setup",
    "labkit.study.spreading": "labkit.study.spread",
    "labkit.study.storing": "labkit.study.store",
    "labkit.study.sweeping": "labkit.study.sweep_points",
    "labkit.testing.assignments": "labkit.grading.assignments",
    "labkit.testing.checker": "labkit.algorithms.sort_checker",
    "labkit.testing.grade": "labkit.grading",
    "labkit.testing.grade.finding": "labkit.grading.find",
    "labkit.testing.reality": "labkit.calibration.reality",
    "labkit.testing.sandbox": "labkit.grading.sandbox",
    "labkit.testing.sandbox.containment": "labkit.process.confinement.containment",
    "labkit.testing.sandbox.landlock": "labkit.process.confinement.landlock",
    "labkit.testing.sandbox.seccomp": "labkit.process.confinement.seccomp",
    "labkit.trace.recorder.clocks": "labkit.timing.clocks",
    "labkit.trace.recording": "labkit.trace.trace",
}

#: old name of what a module holds -> the module that holds it today
MOVED_ATTRIBUTES = {
    "labkit.registry.default": "labkit.selector",
    "labkit.schedule.Simulated": "labkit.sim.schedules",
    "labkit.schedule.perform": "labkit.sim.schedules",
    "labkit.schedule.simulate": "labkit.sim.schedules",
}


def current_name(name: str) -> str:
    """Return today's name of a module.

    Examples
    --------
    >>> current_name("labkit.sim.zones.zone"), current_name("labkit.errors")
    ('labkit.platform.zones.zone', 'labkit.errors')
    """
    head, tail = name, ""
    while head:
        if head in MOVED:
            return MOVED[head] + tail
        head, _, last = head.rpartition(".")
        tail = f".{last}{tail}"
    return name


class _Alias(Loader):
    """Gives the old name the module of the new one."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.name)
        self.own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give it back its own specification: it has been executed under its own name."""
        module.__spec__ = self.own

    def get_code(self, name: str) -> CodeType | None:
        """Return the module's code: ``python -m`` with the old name runs it."""
        found = importlib.util.find_spec(self.name)
        get_code = getattr(found and found.loader, "get_code", None)
        code: CodeType | None = get_code(self.name) if get_code else None
        return code


class _Finder(MetaPathFinder):
    """Asked first for what an old name of a package holds, where its files would be found a second time."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        above = name.rpartition(".")[0]
        if not name.startswith("labkit.") or getattr(sys.modules.get(above), "__name__", above) == above:
            return None
        return _find(name)


class _LastFinder(MetaPathFinder):
    """Asked last: for names that no file has."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return _find(name)


def _find(name: str) -> importlib.machinery.ModuleSpec | None:
    today = current_name(name)
    if today == name:
        return None
    try:
        found = importlib.util.find_spec(today)
    except ModuleNotFoundError:  # below a package that is a module today
        found = None
    if found is None:
        return None
    warnings.warn(f"{name} is {today} now; the old name goes in the next version", FutureWarning, 3)
    held_more = any(old.startswith(f"{name}.") for old in MOVED)
    is_package = held_more or found.submodule_search_locations is not None
    return importlib.machinery.ModuleSpec(name, _Alias(today), origin=found.origin, is_package=is_package)


def find_moved() -> None:
    """Let old names be imported in this process."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
        sys.meta_path.append(_LastFinder())


def moved_attribute(module: str, name: str) -> Any:
    """Return what a module once held, with a warning: for its ``__getattr__``.

    Raises
    ------
    AttributeError
        It never did.
    """
    today = MOVED_ATTRIBUTES.get(f"{module}.{name}")
    if today is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    text = f"{module}.{name} is {today}.{name} now; the old name goes in the next version"
    warnings.warn(text, FutureWarning, 3)
    return getattr(importlib.import_module(today), name)
