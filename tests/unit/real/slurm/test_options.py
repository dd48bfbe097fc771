"""What a batch job asks for: options, texts and profiles, refused before anything is submitted."""

from __future__ import annotations

import pytest

import labkit as lk
from labkit.errors import MachineError
from labkit.real.slurm.options import Slurm, is_slurm, slurm_of, time_seconds
from tests.support.refusals import raises_code


@pytest.fixture(autouse=True)
def config(tmp_path, monkeypatch):
    """No profiles of whoever runs the tests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "labkit" / "slurm.toml"


@pytest.mark.parametrize("on", ["slurm", " Slurm ", "slurm:debug", "slurm,nodes=2", Slurm()])
def test_what_names_slurm(on):
    assert is_slurm(on)


@pytest.mark.parametrize("on", ["star", "mpi", "slurmy", "slurm.xml", None, 3])
def test_what_does_not(on):
    assert not is_slurm(on)


def test_a_text_has_options_behind_commas():
    found = slurm_of("slurm,partition=debug,nodes=2,exclusive=true,wait_s=30,modules=gcc openmpi")
    assert found == lk.slurm(
        partition="debug", nodes=2, exclusive=True, wait_s=30, modules=["gcc", "openmpi"]
    )


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"partion": "x"}, ("unknown-name", "'partion'", "'partition'")),
        ({"nodes": 0}, ("out-of-range", "nodes", "1", "0")),
        ({"nodes": True}, ("out-of-range", "nodes")),
        ({"ranks_per_node": 1.5}, ("out-of-range", "ranks_per_node")),
        ({"max_jobs": None}, ("out-of-range", "max_jobs")),
        ({"time": "soon"}, ("malformed-value", "time='soon'")),
        ({"time": 0}, ("out-of-range",)),
        ({"partition": "a\n#SBATCH --uid=0"}, ("malformed-value", "partition")),
        ({"setup": ["good", "bad\x00"]}, ("malformed-value", "setup")),
        ({"extra": "--ntasks=4"}, ("conflicting-options", "extra", "--ntasks")),
        ({"extra": "gres=gpu:1"}, ("malformed-value", "extra")),
        ({"name": "../x"}, ("malformed-name", "name")),
        ({"wait_s": -1}, ("out-of-range", "wait_s", "0")),
        ({"exclusive": "maybe"}, ("wrong-type", "exclusive")),
        ({"folder": ""}, ("malformed-value", "folder")),
        ({"launcher": ""}, ("malformed-value", "launcher")),
    ],
)
def test_what_makes_no_sense_is_refused(options, wanted: tuple[str, ...]):
    with raises_code(MachineError, *wanted):
        lk.slurm(**options)


def test_ranks_must_fit():
    with raises_code(MachineError, "too-many-ranks", "64", "nodes=2", "ranks_per_node=16"):
        lk.run(lambda comm: None, 64, on=lk.slurm(nodes=2, ranks_per_node=16))


@pytest.mark.parametrize(
    ("options", "ranks", "nodes", "per_node"),
    [
        ({}, 64, None, None),
        ({"ranks_per_node": 16}, 64, 4, 16),
        ({"ranks_per_node": 16}, 65, 5, 16),
        ({"ranks_per_node": 16}, 3, 1, 3),
        ({"nodes": 4}, 64, 4, 16),
        ({"nodes": 4}, 2, 2, 1),
        ({"nodes": 4, "ranks_per_node": 16}, 20, 4, 16),
    ],
)
def test_nodes_and_ranks_on_each(options, ranks, nodes, per_node):
    cluster = lk.slurm(**options)
    assert (cluster.node_count(ranks), cluster.ranks_on_node(ranks)) == (nodes, per_node)


def test_times_as_sbatch_reads_them():
    texts = ("5", "5:30", "1:00:00", "2-0", "1-2:30", "1-2:30:15")
    assert [time_seconds(text) for text in texts] == [300, 330, 3600, 172800, 95400, 95415]


def test_tables_build_on_the_default(config):
    config.parent.mkdir()
    config.write_text(
        '[default]\naccount = "p1"\nmodules = ["a"]\n[debug]\npartition = "debug"\nmodules = ["b"]\n'
    )
    assert lk.slurm().record() == {"account": "p1", "modules": ["a"]}
    debug = slurm_of("slurm:debug")
    assert (debug.account, debug.partition, debug.modules) == ("p1", "debug", ("b",))
    assert debug.label == "slurm:debug"
    assert slurm_of("slurm:debug,account=p2").account == "p2"
    other = config.with_name("other.toml")
    other.write_text('[x]\nqos = "low"\n')
    assert lk.slurm(f"{other}:x").qos == "low"


@pytest.mark.parametrize(
    ("text", "profile", "wanted"),
    [
        (None, "debug", ("missing-file",)),
        ("[default]\n", "debug", ("unknown-name",)),
        ("[default\n", "", ("unreadable-file",)),
        ('account = "p"\n', "", ("name-taken", "'account'")),
        ('[default]\nacount = "p"\n', "", ("unknown-name", "'acount'", "'account'")),
        ('[default]\nnodes = "many"\n', "", ("out-of-range", "nodes")),
    ],
)
def test_profiles_that_cannot_be_used(config, text, profile, wanted: tuple[str, ...]):
    if text is not None:
        config.parent.mkdir()
        config.write_text(text)
    with raises_code(MachineError, *wanted):
        lk.slurm(profile)


def test_the_sample_profile_is_one():
    from pathlib import Path

    sample = Path(__file__).parents[4] / "docs" / "slurm-profile.toml"
    if not sample.exists():
        pytest.skip("not in a checkout")
    assert lk.slurm(f"{sample}:production").exclusive
    assert lk.slurm(f"{sample}:debug").mpi == "system"
