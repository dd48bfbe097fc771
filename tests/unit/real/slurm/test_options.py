"""What a batch job asks for: options, texts and profiles, refused before anything is submitted."""

from __future__ import annotations

import pytest

import labkit as lk
from labkit.errors import MachineError
from labkit.real.slurm.options import Slurm, is_slurm, slurm_of, time_seconds


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
    ("options", "sentence"),
    [
        ({"partion": "x"}, "no option 'partion'; did you mean 'partition'"),
        ({"nodes": 0}, "nodes must be a whole number of at least 1, got 0"),
        ({"nodes": True}, "nodes must be a whole number"),
        ({"ranks_per_node": 1.5}, "ranks_per_node must be a whole number"),
        ({"max_jobs": None}, "max_jobs must be a whole number"),
        ({"time": "soon"}, "time='soon' is no time limit of Slurm"),
        ({"time": 0}, "leaves no time"),
        ({"partition": "a\n#SBATCH --uid=0"}, "partition takes one line of text"),
        ({"setup": ["good", "bad\x00"]}, "setup takes one line of text"),
        ({"extra": "--ntasks=4"}, "extra cannot set --ntasks: labkit does"),
        ({"extra": "gres=gpu:1"}, "extra takes options of sbatch"),
        ({"name": "../x"}, "name takes letters"),
        ({"wait_s": -1}, "wait_s must be a number of seconds above 0"),
        ({"exclusive": "maybe"}, "exclusive is True or False"),
        ({"folder": ""}, "folder must not be empty"),
        ({"launcher": ""}, "launcher must not be empty"),
    ],
)
def test_what_makes_no_sense_is_refused(options, sentence):
    with pytest.raises(MachineError, match=sentence):
        lk.slurm(**options)


def test_ranks_must_fit():
    with pytest.raises(MachineError, match="64 ranks do not fit on nodes=2 with ranks_per_node=16"):
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
    ("text", "profile", "sentence"),
    [
        (None, "debug", "there is no file"),
        ("[default]\n", "debug", "its tables are: default"),
        ("[default\n", "", "cannot be read"),
        ('account = "p"\n', "", "'account' stands outside of a table"),
        ('[default]\nacount = "p"\n', "", "no option 'acount'; did you mean 'account'"),
        ('[default]\nnodes = "many"\n', "", "nodes must be a whole number"),
    ],
)
def test_profiles_that_cannot_be_used(config, text, profile, sentence):
    if text is not None:
        config.parent.mkdir()
        config.write_text(text)
    with pytest.raises(MachineError, match=sentence):
        lk.slurm(profile)


def test_the_sample_profile_is_one():
    from pathlib import Path

    sample = Path(__file__).parents[4] / "docs" / "slurm-profile.toml"
    if not sample.exists():
        pytest.skip("not in a checkout")
    assert lk.slurm(f"{sample}:production").exclusive
    assert lk.slurm(f"{sample}:debug").mpi == "system"
