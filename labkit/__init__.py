"""labkit: engineer parallel algorithms on real and simulated machines.

    run          one SPMD program on a machine: real MPI, a simulated platform, a cluster, Slurm
    sweep        a program over ranks, machines and parameters: a Study
    load         a Study from its file
    fit, judge   a scaling model of measurements; their growth against an expectation
    predict      a growth or numbers expected before a run, drawn next to the result
    phase        a named part of a program: with labkit.phase("merge"): ...
    compute      computation that a simulated rank is charged for
    count        a number of the program's own, summed up in every sweep: swaps, probes
    sized        a buffer of any size that takes no memory: messages of large simulations
    sampled      work that is done a few times, then charged its mean
    measure      one piece of a program, repeated until its interval is narrow
    platform     a simulated machine from its text: "torus:8x8x8", a file, a machine's name
    graph        a simulated machine from a custom graph
    cluster      MPI engines that stay up between runs
    slurm        options of batch jobs
    calibrate    a model of this machine's network from measurements
    contrast     a real run compared with a simulated one, phase by phase
    guidelines   collectives compared with each other: allreduce <= reduce + bcast, ...
    synthesize   a collective made for one machine, uneven or cut links included
    card         what a collective costs: formula, LogGP, simulation, lower bound, measurements
    tune         the fastest algorithm of a collective at each size, as a decision tree and rules
    replay       a recorded trace on another machine
    verify       a bundle: whether its figures come from its source
    check        an answer to an exercise of the course
    lecture      an algorithm as a lecture writes it, in at most 40 lines

    models       formulas of times: LogGP, bounds of messages and collectives, best mappings
    explore      explorers to play with: topology, collective, messages, model, schedule, sorting,
                 vary, waits
    plot         figures: gantt, phases, scaling, efficiency, heat, ...
    algorithms   sorts and collectives, a file each
    datasets     inputs, flights, machines
    errors       what labkit raises
    MPI          mpi4py's MPI, of the machine that a program runs on

Nothing heavy is imported here: each public name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys

TYPE_CHECKING = False  # as in typing, which is not imported: of what a rank's start costs it is a tenth
if TYPE_CHECKING:
    from labkit.calibration import Calibration as Calibration
    from labkit.calibration import calibrate as calibrate  # type: ignore[no-redef]
    from labkit.jupyter.exercise import check as check
    from labkit.jupyter.lecture import lecture as lecture
    from labkit.jupyter.prediction import predict as predict
    from labkit.jupyter.save_work import restore_work as restore_work
    from labkit.jupyter.save_work import save_button as save_button
    from labkit.jupyter.save_work import save_work as save_work
    from labkit.launch.run import run as run
    from labkit.machines import Platform as Platform
    from labkit.machines import Zone as Zone
    from labkit.machines import graph as graph
    from labkit.machines import platform as platform  # type: ignore[no-redef]
    from labkit.machines.noise import Noise as Noise
    from labkit.program.context import compute as compute
    from labkit.program.context import count as count
    from labkit.program.context import phase as phase
    from labkit.program.sampling import sampled as sampled
    from labkit.program.sized import sized as sized
    from labkit.real.engines.cluster import cluster as cluster
    from labkit.real.slurm.jobs import slurm_jobs as slurm_jobs
    from labkit.real.slurm.options import slurm as slurm
    from labkit.result import Run as Run
    from labkit.result.other_tools import read_trace as read_trace
    from labkit.scaling import Model as Model
    from labkit.scaling import Verdict as Verdict
    from labkit.scaling import fit as fit
    from labkit.scaling import judge as judge
    from labkit.sim.measured import Measured as Measured
    from labkit.sim.replay import replay as replay
    from labkit.study import Study as Study
    from labkit.study import load as load
    from labkit.study import sweep as sweep
    from labkit.study.bundle import verify as verify
    from labkit.study.guidelines import guidelines as guidelines
    from labkit.study.guidelines import litmus as litmus  # type: ignore[no-redef]
    from labkit.synthesis import synthesize as synthesize
    from labkit.timing import Repeats as Repeats
    from labkit.timing import measure as measure
    from labkit.trace import contrast as contrast
    from labkit.tuning import tune as tune
    from labkit.tuning.cards import card as card

if importlib.util.find_spec("labkit._kernels") is None:
    raise ImportError(
        f"labkit at {__path__[0]} has no compiled kernels: this is an unbuilt checkout. "
        "Run `pip install -e .` (or `make demo`) at its root, or start Python from another folder "
        "to use an installed labkit."
    )

#: the only place of the version; pyproject.toml reads it from here
__version__ = "1.0.0rc1"

#: what people ask for under another name, and what to write
_INSTEAD = {
    "compare": "labkit.plot.compare(studies) for studies, labkit.contrast(runs) for runs",
    "expect": 'study.expect("p log p"), or labkit.judge(p, seconds, "p log p")',
    "gantt": "labkit.plot.gantt(run) of a run with trace=True",
    "collectives": 'dir(labkit.algorithms), or labkit.card("bcast")',
    "sort": "labkit.algorithms.sorting",
    "explain": "labkit.run(program, 8, trace=True).explain()",
    "help": "help(labkit)",
    "mpi4py": "from mpi4py import MPI: it is a separate package",
    "simulate": 'labkit.run(program, 8), simulated unless on="mpi"',
    "demo": "the command labkit demo, or the notebook 00_start_here.ipynb",
    **dict.fromkeys(
        ("topologies", "platforms", "machines"),
        "labkit.explore.topology(), which shows them, or help(labkit.platform)",
    ),
    "topology": 'labkit.explore.topology("torus:4x4"), or labkit.plot.topology(machine)',
    **{name: f"labkit.plot.{name}(study)" for name in ("speedup", "efficiency")},
    **{
        name: f'labkit.platform("{name}:{sizes}"), or on="{name}:{sizes}" of a run'
        for name, sizes in (("star", "16"), ("torus", "4x4"), ("fattree", "4x4:1x2:1x2"))
    },
}
#: public name -> module that holds it
_PUBLIC = {
    "run": "labkit.launch.run",
    "Run": "labkit.result",
    "cluster": "labkit.real.engines.cluster",
    "slurm": "labkit.real.slurm.options",
    "slurm_jobs": "labkit.real.slurm.jobs",
    "replay": "labkit.sim.replay",
    "read_trace": "labkit.result.other_tools",
    "calibrate": "labkit.calibration",
    "Calibration": "labkit.calibration",
    "phase": "labkit.program.context",
    "compute": "labkit.program.context",
    "count": "labkit.program.context",
    "sized": "labkit.program.sized",
    "sampled": "labkit.program.sampling",
    "measure": "labkit.timing",
    "Repeats": "labkit.timing",
    "guidelines": "labkit.study.guidelines",
    "litmus": "labkit.study.guidelines",
    "Noise": "labkit.machines.noise",
    "Measured": "labkit.sim.measured",
    "contrast": "labkit.trace",
    "tune": "labkit.tuning",
    "card": "labkit.tuning.cards",
    "synthesize": "labkit.synthesis",
    "sweep": "labkit.study",
    "load": "labkit.study",
    "verify": "labkit.study.bundle",
    "Study": "labkit.study",
    "fit": "labkit.scaling",
    "judge": "labkit.scaling",
    "Model": "labkit.scaling",
    "Verdict": "labkit.scaling",
    "platform": "labkit.machines",
    "Platform": "labkit.machines",
    "Zone": "labkit.machines",
    "graph": "labkit.machines",
    "predict": "labkit.jupyter.prediction",
    "check": "labkit.jupyter.exercise",
    "lecture": "labkit.jupyter.lecture",
    "save_work": "labkit.jupyter.save_work",
    "save_button": "labkit.jupyter.save_work",
    "restore_work": "labkit.jupyter.save_work",
}

#: what ``%load_ext labkit`` and ``%unload_ext labkit`` call
_HOOKS = dict.fromkeys(("load_ipython_extension", "unload_ipython_extension"), "labkit.jupyter")

#: public name -> module that it is
_MODULES = {
    "algorithms": "labkit.algorithms",
    "datasets": "labkit.datasets",
    "errors": "labkit.errors",
    "explore": "labkit.jupyter.explorers",
    "models": "labkit.models",
    "plot": "labkit.plot",
}

__all__ = ["MPI", "__version__", *sorted(_MODULES), *sorted(_PUBLIC)]

#: verbs and tools that most programs need not: found by name and in the manual, not at the first Tab
_ASIDE = {"litmus", "read_trace", "restore_work", "save_button", "save_work", "slurm_jobs"}


def __getattr__(name: str) -> object:
    if name.startswith("__"):  # Python looks for them by habit: nothing is suggested
        raise AttributeError(f"module 'labkit' has no attribute {name!r}")
    if name in _PUBLIC:
        value = getattr(importlib.import_module(_PUBLIC[name]), name)
    elif name in _HOOKS:
        value = getattr(importlib.import_module(_HOOKS[name]), name)
    elif name == "MPI":
        importlib.import_module("labkit.MPI")
        value = sys.modules["labkit.MPI"]
    elif name in _MODULES:
        value = importlib.import_module(_MODULES[name])
    else:
        problem = f"labkit.algorithms.{name}"  # such as sorting
        is_problem = importlib.util.find_spec(problem) is not None
        instead = {**_INSTEAD, **({name: problem} if is_problem else {})}
        raise importlib.import_module("labkit.errors").unknown_name("labkit", name, __all__, instead)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return ["MPI", *sorted({*_MODULES, *(name for name in _PUBLIC if name.islower())} - _ASIDE)]


def _show_errors_in_notebooks() -> None:
    """Let IPython show labkit's errors as ``%%spmd`` shows its own: a sentence and the user's own line."""

    def render(error: object) -> list[str]:
        lines: list[str] = importlib.import_module("labkit.jupyter.failure").raised_lines(error)
        return lines

    def render_interrupt(error: object) -> list[str]:
        return [f"KeyboardInterrupt: {error}", *getattr(error, "__notes__", ())]

    errors = importlib.import_module("labkit.errors")
    errors.LabkitError._render_traceback_ = render
    errors.RunInterrupted._render_traceback_ = render_interrupt


if "IPython" in sys.modules:
    _show_errors_in_notebooks()
    importlib.import_module("labkit.jupyter.extension").offer_names()
    importlib.import_module("labkit.jupyter.extension").load_when_called()
    importlib.import_module("labkit.jupyter.hints").offer_hints()
    importlib.import_module("labkit.jupyter.extension").show_plain_numbers()
    importlib.import_module("labkit.jupyter.extension").name_cells_in_warnings()
