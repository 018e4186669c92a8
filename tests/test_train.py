# SPDX-License-Identifier: MIT
"""The loop: schedules, best and last model, early stopping, and resume to the same bytes after any kind of end."""

import json
import math
import resource
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import N_LABELS

from xcl.checkpoint.safetensors import File
from xcl.config import OptimizerConfig
from xcl.errors import Interrupted, ResourceError, UserError, WorkError
from xcl.launch import Request, launch
from xcl.train import Signals, Trainer, learning_rate


def train(*overrides, name="r", **options):
    launch(Request(Path("c.yaml"), overrides, name=name, quiet=True, **options))


def weights(run):
    file = File(Path("runs") / run / "model.safetensors")
    return {name: file.array(name).tobytes() for name in file.names}


def records(run, kind=None):
    lines = (Path("runs") / run / "metrics.jsonl").read_text().splitlines()
    return [r for r in map(json.loads, lines) if kind in (None, r["type"])]


def rates(schedule, warmup, n=10):
    optimizer = OptimizerConfig(learning_rate=1.0, schedule=schedule, warmup=warmup)
    return [learning_rate(optimizer, i, 1, n) for i in range(n)]


def test_schedules():
    assert rates("constant", 0) == [1.0] * 10
    assert rates("linear", 0) == pytest.approx([1 - i / 10 for i in range(10)])
    assert rates("cosine", 0) == pytest.approx([0.5 + 0.5 * math.cos(math.pi * i / 10) for i in range(10)])
    assert rates("linear", 0.5) == pytest.approx([0.2, 0.4, 0.6, 0.8, 1, 1, 0.8, 0.6, 0.4, 0.2])
    assert all(rate > 0 for schedule in ("linear", "cosine") for rate in rates(schedule, 0.3))


def test_training_learns_and_leaves_a_whole_run(work):
    train()
    run = Path("runs/r-1")
    assert {p.name for p in run.iterdir()} == {
        *("config.yaml", "metrics.jsonl", "model.safetensors", "checkpoint.safetensors", "env.json", "train.log"),
    }
    losses = [r["loss"] for r in records("r-1", "epoch")]
    assert len(losses) == 6 and losses[-1] < losses[0] / 2
    (test,) = records("r-1", "eval")
    assert test["p@1"] > 0.9 and test["rows"] == 90 and test["data"] == "test.txt"
    end = records("r-1")[-1]
    assert end["type"] == "end" and end["choice"] == "last" and end["epochs"] == 6
    counts = File(run / "model.safetensors").array("label_counts")
    assert counts.sum() == sum(
        len(line.split()[0].split(",")) for line in Path("train.txt").read_text().split("\n")[1:-1]
    )


def test_the_last_partial_batch_is_trained_on(work):
    train("train.epochs=1", "train.batch_size=299")
    assert records("r-1", "epoch")[0]["step"] == 2


def test_equal_seeds_give_equal_bytes_at_any_number_of_threads(work):
    train(name="a", threads=1)
    train(name="b", threads=3)
    train("train.seed=2", name="c")
    assert weights("a-1") == weights("b-1") != weights("c-1")


def test_the_stored_config_repeats_the_run(work):
    train("train.seed=5", "optimizer.learning_rate=3e-2")
    launch(Request(Path("runs/r-1"), quiet=True))
    assert weights("r-1") == weights("r-2")


def test_held_out_rows_choose_the_best_model(work):
    train("data.validation=0.2", "optimizer.learning_rate=0.3", "optimizer.schedule=constant")
    scores = [r["p@1"] for r in records("r-1", "eval") if r["data"] == "validation"]
    assert len(scores) == 6
    assert {r["rows"] for r in records("r-1", "eval") if r["data"] == "validation"} == {60}
    end = records("r-1")[-1]
    assert end["choice"] == "best" and end["p@1"] == max(scores)
    assert end["best_epoch"] == scores.index(max(scores)) + 1
    card = json.loads(File(Path("runs/r-1/model.safetensors")).metadata["xcl"])
    assert card["trained"] == {"choice": "best", "epoch": end["best_epoch"], "p@1": max(scores)}
    assert card["n_train_rows"] == 240


def test_quick_looks_take_some_of_the_validation_rows(work, monkeypatch):
    monkeypatch.setattr("xcl.train.QUICK_ROWS", 20)
    monkeypatch.setattr("xcl.train.LOOK_SECONDS", 0.0)
    train("data.validation=0.2", "train.evaluate_minutes=1e-9", "train.epochs=1")
    looks = [r for r in records("r-1", "eval") if r.get("quick")]
    assert looks and {r["rows"] for r in looks} == {20}


def test_the_test_rows_are_scored_by_the_model_that_was_kept(work):
    """One good epoch, then a rate that ruins the weights: the written model is the first epoch's."""
    train("data.validation=test.txt", "train.epochs=1", "optimizer.schedule=constant", name="one")
    train(
        *("data.validation=test.txt", "optimizer.schedule=constant", "train.patience=2", "train.epochs=40"),
        *("optimizer.kind=sgd", "optimizer.learning_rate=0.5", "model.dropout=0.9"),
        name="many",
    )
    end = records("many-1")[-1]
    final = [r for r in records("many-1", "eval") if r["data"] == "test.txt"]
    at_best = [r for r in records("many-1", "eval") if r["epoch"] == end["best_epoch"]]
    assert end["best_epoch"] < end["epochs"]
    assert final[-1]["p@1"] == at_best[0]["p@1"] == end["p@1"]


def test_patience_stops_early(work):
    train("data.validation=0.2", "train.patience=2", "train.epochs=500", "optimizer.schedule=constant")
    end = records("r-1")[-1]
    assert end["stopped_early"] and end["epochs"] == end["best_epoch"] + 2 < 500


def test_a_loss_that_is_not_finite_ends_in_one_sentence_without_a_model(work):
    with pytest.raises(WorkError, match=r"diverged.* step \d+ .*learning_rate=1e\+30"):
        train("optimizer.learning_rate=1e30", "model.init=random")
    assert not Path("runs/r-1/model.safetensors").exists()
    assert "NaN" not in Path("runs/r-1/metrics.jsonl").read_text()


SETTINGS = [
    (),
    ("optimizer.kind=adam", "optimizer.learning_rate=0.01", "model.hidden=[24, 20]", "loss=softmax"),
    (
        *("sampler.kind=dwta", "sampler.hashes_per_table=2", "sampler.tables=8", "sampler.active=3"),
        *("sampler.rehash_rows=64", "sampler.rebuild_rows=256", "sampler.rehash_growth=0.1", "sampler.scope=row"),
    ),
    (
        "sampler.kind=simhash",
        "sampler.hashes_per_table=3",
        "sampler.tables=4",
        "sampler.active=2",
        "optimizer.kind=sgd",
    ),
    ("data.validation=0.2", "train.patience=3", "model.init=random", "sampler.active=3"),
]


class StopAfter(Signals):
    """Ctrl-C after so many steps."""

    def __init__(self, n_checks):
        super().__init__(lambda text: None)
        self.left = n_checks

    def check(self):
        self.left -= 1
        if self.left < 0:
            self.signum = signal.SIGINT
        super().check()


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_stopped_run_goes_on_to_the_same_bytes(work, monkeypatch, settings):
    train(*settings, name="whole")
    steps = records("whole-1", "epoch")[-1]["step"]
    for n_checks in (0, 1, 15, 21, steps // 2, steps + 1):
        name = f"cut{n_checks}"
        with monkeypatch.context() as patch:
            patch.setattr("xcl.launch.Signals", lambda notice, n=n_checks: StopAfter(n))
            with pytest.raises(Interrupted, match="--resume") as stopped:
                train(*settings, name=name)
        assert stopped.value.exit_code == 130
        train(*settings, name=name, resume=True)
        assert weights(f"{name}-1") == weights("whole-1"), n_checks
        kept = ("epoch", "eval", "end")
        assert [r["type"] for r in records(f"{name}-1") if r["type"] in kept] == [
            r["type"] for r in records("whole-1") if r["type"] in kept
        ]


def test_stopping_many_times_changes_nothing(work, monkeypatch):
    settings = SETTINGS[2]
    train(*settings, name="whole")
    resume = False
    for _ in range(60):
        with monkeypatch.context() as patch:
            patch.setattr("xcl.launch.Signals", lambda notice: StopAfter(25))
            try:
                train(*settings, name="cut", resume=resume)
                break
            except Interrupted:
                resume = True
    else:
        pytest.fail("never finished")
    assert weights("cut-1") == weights("whole-1")


@pytest.mark.parametrize("settings", [SETTINGS[2], SETTINGS[4]])
def test_kill_at_any_time_and_resume(work, spawn, xcl, settings):
    often = ("train.epochs=60", "train.checkpoint_minutes=0.0005", *settings)
    train(*often, name="whole")
    rng = np.random.default_rng(len(settings))
    process = spawn("train", "c.yaml", *often, "--quiet", "--name", "cut")
    for delay in rng.uniform(0.25, 0.6, 4):
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if Path("runs/cut-1/config.yaml").exists():
            process = spawn("train", "c.yaml", *often, "--quiet", "--name", "cut", "--resume")
        else:
            process = spawn("train", "c.yaml", *often, "--quiet", "--name", "cut")
    assert process.wait(60) == 0
    assert weights("cut-1") == weights("whole-1")
    assert not list(Path("runs/cut-1").glob("lock"))


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_signals_save_say_how_to_go_on_and_set_the_exit_code(work, spawn, signum):
    process = spawn("train", "c.yaml", "train.epochs=1000000", "--name", "r")
    while not Path("runs/r-1/metrics.jsonl").exists() or not Path("runs/r-1/metrics.jsonl").read_text():
        time.sleep(0.05)
    process.send_signal(signum)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 128 + signum
    assert "xcl train runs/r-1 --resume" in err.splitlines()[-1]
    assert File(Path("runs/r-1/checkpoint.safetensors")).metadata["state"]


def test_a_finished_run_is_left_alone(work, xcl):
    train()
    before = {p.name: p.read_bytes() for p in Path("runs/r-1").iterdir()}
    done = xcl("train", "c.yaml", "--resume", "--name", "r")
    assert done.code == 0 and "finished" in done.err and len(done.err.splitlines()) == 1
    assert {p.name: p.read_bytes() for p in Path("runs/r-1").iterdir()} == before
    assert {p.name for p in Path("runs").iterdir()} == {"r-1", "latest"}


def test_more_epochs_go_on_from_the_end(work):
    train("optimizer.schedule=constant", "train.epochs=3")
    train("optimizer.schedule=constant", "train.epochs=6", resume=True)
    train("optimizer.schedule=constant", "train.epochs=6", name="whole")
    assert weights("r-1") == weights("whole-1")
    assert [r["epoch"] for r in records("r-1", "epoch")] == [1, 2, 3, 4, 5, 6]


def test_a_resumed_run_keeps_its_settings_and_data(work):
    train("train.epochs=2")
    with pytest.raises(UserError, match=r"model.hidden was \(24,\) and is now \(8,\)"):
        train("train.epochs=4", "model.hidden=[8]", resume=True)
    Path("train.txt").write_text(Path("train.txt").read_text().replace("0:1", "0:2"))
    with pytest.raises(UserError, match=r"train.txt: changed since"):
        train("train.epochs=4", resume=True)


def test_nothing_to_resume_is_said(work):
    with pytest.raises(UserError, match="no run r-<n>"):
        train(resume=True)


def test_a_run_in_use_is_refused(work, spawn, xcl):
    spawn("train", "c.yaml", "train.epochs=1000000", "--name", "r")
    while not Path("runs/r-1/lock").exists() or not Path("runs/r-1/train.log").exists():
        time.sleep(0.05)
    done = xcl("train", "c.yaml", "train.epochs=1000000", "--name", "r", "--resume")
    assert done.code == 2 and "in use by process" in done.err


def test_rows_without_features_or_labels(work):
    Path("empty.txt").write_text("2 5 5\n1\n2\n")
    with pytest.raises(UserError, match="no row has a feature"):
        train("data.train=empty.txt")
    Path("empty.txt").write_text("2 5 5\n 1:1\n 2:1\n")
    with pytest.raises(UserError, match="no row has a label"):
        train("data.train=empty.txt")
    with pytest.raises(UserError, match="nothing to measure"):
        train("data.validation=empty.txt")
    with pytest.raises(UserError, match="nothing to measure"):
        train("data.test=empty.txt")
    assert not Path("runs/r-1").exists()


def test_a_row_too_few_to_hold_out(work):
    Path("one.txt").write_text("1 5 5\n1 1:1\n")
    with pytest.raises(UserError, match="too few"):
        train("data.train=one.txt", "data.validation=0.5")


def test_a_disk_that_is_too_small_is_said_beforehand(work, monkeypatch):
    monkeypatch.setattr("xcl.launch.free_bytes", lambda folder: 10_000)
    with pytest.raises(ResourceError, match=r"not enough disk space in runs: .* up to \d+ KiB, 10 KiB are free"):
        train()
    assert not Path("runs").exists()


def test_a_write_that_fails_names_the_file_and_exits_3(work, xcl):
    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    done = xcl("train", "c.yaml", "model.hidden=[512]", "--quiet", preexec_fn=small_files)
    assert done.code == 3 and "runs/c-1/model.safetensors: File too large" in done.err
    assert not Path("runs/c-1/model.safetensors").exists() and not list(Path("runs/c-1").glob(".*"))


def test_learning_rate_follows_rows_not_steps(work, monkeypatch):
    seen = []
    step = Trainer._step
    monkeypatch.setattr(Trainer, "_step", lambda self, rows, rate: seen.append(rate) or step(self, rows, rate))
    train("train.epochs=2", "train.batch_size=200", "optimizer.learning_rate=1e-3")
    assert seen == pytest.approx([1e-3 * (1 - seen / 600) for seen in (0, 200, 300, 500)])


def test_tables_report_how_they_do(work):
    train(*SETTINGS[2])
    epoch = records("r-1", "epoch")[-1]
    assert epoch["ids_per_bucket"] >= 1 and 0 <= epoch["empty_probes"] <= 1 and 0 <= epoch["label_recall"] <= 1
    assert "true labels among them" in Path("runs/r-1/train.log").read_text()


def test_label_names_may_begin_with_a_hash(work):
    Path("train.labels.txt").write_text("#one\n" + "\n".join(map(str, range(N_LABELS - 1))) + "\n")
    train("train.epochs=1")
    assert Path("runs/r-1/labels.txt").read_text() == Path("train.labels.txt").read_text()
    assert "not used" not in Path("runs/r-1/train.log").read_text()


def test_memory_is_planned_before_labels_are_counted(work, xcl):
    """The largest ids: counts alone would take 16 GiB."""
    Path("train.txt").write_text("0 2147483646:1\n2147483646 0:1\n")
    limit = 2 << 30
    done = xcl("train", "c.yaml", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    assert done.code == 3 and len(done.err.splitlines()) == 1
    assert "not enough memory: " in done.err and "(ulimit -v)" in done.err
