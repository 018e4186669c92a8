# SPDX-License-Identifier: MIT
"""Run directories: numbering, the latest link, finding, and the lock."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from xcl import rundir
from xcl.errors import UserError


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def with_model(run):
    run.model.touch()
    run.config.touch()
    return run


def test_numbers_go_on_and_latest_follows():
    runs = [rundir.create("a"), rundir.create("a"), rundir.create("b"), rundir.create("a")]
    assert [str(r) for r in runs] == ["runs/a-1", "runs/a-2", "runs/b-1", "runs/a-3"]
    assert os.readlink("runs/latest") == "a-3"
    assert [str(r) for r in rundir.of_name("a")] == ["runs/a-3", "runs/a-2", "runs/a-1"]
    assert [str(r) for r in rundir.of_name("a-2")] == ["runs/a-2"]


def test_numbers_after_nine_and_foreign_names():
    Path("runs/a-9").mkdir(parents=True)
    Path("runs/a-b-77").mkdir()
    Path("runs/a-x").mkdir()
    assert str(rundir.create("a")) == "runs/a-10"
    assert [str(r) for r in rundir.of_name("a")] == ["runs/a-10", "runs/a-9"]


def test_many_at_once_get_different_directories():
    with ThreadPoolExecutor(16) as pool:
        runs = list(pool.map(lambda _: str(rundir.create("a")), range(40)))
    assert len(set(runs)) == 40


@pytest.mark.parametrize(
    ("config", "stem"),
    [("x/quickstart.yaml", "quickstart"), ("my run.yaml", "my-run"), ("...yaml", "run"), ("é.yaml", "é")],
)
def test_stems(config, stem):
    assert rundir.stem_of(Path(config)) == stem


def test_stem_of_a_run_directory_is_that_of_the_run():
    assert rundir.stem_of(rundir.create("deep-net").path) == "deep-net"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-x", ".x", "a b", "a\n", "x" * 101])
def test_names_that_cannot_be_folders(name):
    with pytest.raises(UserError, match="--name"):
        rundir.check_stem(name)


def test_find_by_folder_by_name_and_latest(tmp_path):
    first = with_model(rundir.create("a"))
    second = with_model(rundir.create("a"))
    assert rundir.find("runs/a-1") == first
    assert rundir.find("a-1") == first
    assert rundir.find(None).path == second.path
    first.path.rename(tmp_path / "moved")
    assert rundir.find("moved").path == Path("moved")


def test_latest_without_a_link_is_the_newest():
    first, second = with_model(rundir.create("a")), with_model(rundir.create("a"))
    os.utime(first.config, (1, 1))
    os.remove("runs/latest")
    assert rundir.find(None).path == second.path


def test_what_is_no_run_is_named():
    Path("file.txt").write_text("x")
    Path("folder").mkdir()
    Path("folder/a.csv").touch()
    for text, message in [
        ("file.txt", "a file, not a run directory"),
        ("folder", "holds a.csv"),
        (".", "not a run directory"),
        ("nosuch", "no such run"),
    ]:
        with pytest.raises(UserError, match=message):
            rundir.find(text)
    with pytest.raises(UserError, match="no run under"):
        rundir.find(None)


def test_a_run_that_saved_nothing_says_how_to_go_on():
    run = rundir.create("a")
    run.config.touch()
    run.metrics.touch()
    with pytest.raises(UserError, match="--resume"):
        rundir.find("a-1")


def hold(run):
    """A process that holds the lock until it is killed."""
    code = f"""
import sys, time
from pathlib import Path
from xcl import rundir
with rundir.lock(rundir.Run(Path({str(run)!r})), print):
    print("held", flush=True)
    time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def test_two_processes_cannot_hold_one_run():
    run = rundir.create("a")
    process = hold(run)
    try:
        with pytest.raises(UserError, match=f"in use by process {process.pid} on "), rundir.lock(run, print):
            pass
    finally:
        process.kill()
        process.wait()


def test_the_lock_of_a_dead_process_is_taken_over_with_a_notice():
    run = rundir.create("a")
    process = hold(run)
    process.send_signal(signal.SIGKILL)
    process.wait()
    notices = []
    with rundir.lock(run, notices.append):
        pass
    assert len(notices) == 1 and str(process.pid) in notices[0]
    assert not (run.path / "lock").exists()


def test_the_lock_is_released_and_leaves_no_notice():
    run, notices = rundir.create("a"), []
    for _ in range(2):
        with rundir.lock(run, notices.append):
            assert (run.path / "lock").exists()
    assert notices == []
