# SPDX-License-Identifier: MIT
"""The command line from outside: outputs and their streams, exit codes, one-line errors, pipes."""

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import N_LABELS, libsvm

COMMANDS = ["init", "train", "eval", "predict", "doctor"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a finished run r-1; tests must not write into it."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "train.txt").write_text(libsvm(300, 1))
    (folder / "test.txt").write_text(libsvm(90, 2))
    (folder / "c.yaml").write_text(
        "data: {train: train.txt, test: test.txt}\nmodel: {hidden: [20]}\n"
        "optimizer: {learning_rate: 0.05}\ntrain: {epochs: 4, batch_size: 16}\n"
    )
    command = [sys.executable, "-m", "xcl", "train", "c.yaml", "--quiet", "--name", "r"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


def one_line(done, code, *words):
    """The error is one line on stderr with these words, and nothing is on stdout."""
    assert done.code == code, done.err
    assert done.out == "" and len(done.err.splitlines()) == 1, done.err
    for word in words:
        assert word in done.err, done.err


def test_help_is_fast_and_has_the_exit_codes(xcl):
    xcl("--help")
    start = time.perf_counter()
    done = xcl("--help")
    assert time.perf_counter() - start < 1.0  # 0.1 s on an idle machine; the limit is for loaded ones
    for text in ("init", "train", "eval", "predict", "data", "doctor", "130", "Exit codes"):
        assert text in done.out


def test_help_imports_nothing_heavy():
    code = "import sys, xcl.cli; print([m for m in ('numpy', 'scipy', 'rich', 'yaml', 'cffi') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_fits_a_screen_and_has_an_example(xcl, command):
    done = xcl(command, "--help", env={"COLUMNS": "80"})
    assert done.code == 0 and len(done.out.splitlines()) <= 50
    assert "Example" in done.out and f"xcl {command}" in done.out


def test_version_and_no_arguments(xcl):
    assert re.fullmatch(r"xcl \d+\.\d+\.\d+\n", xcl("--version").out)
    done = xcl()
    assert done.code == 2 and "Usage" in done.err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["trian"], "train"),
        (["train"], "CONFIG"),
        (["train", "--bad", "x"], "--bad"),
        (["train", "nosuch.yaml"], "xcl init nosuch.yaml"),
        (["train", "c.yaml", "--threads", "0"], "threads"),
        (["train", "c.yaml", "--threads", "x"], "threads"),
        (["train", "c.yaml", "--name", "a/b"], "--name"),
        (["train", "c.yaml", "train.epoch=3"], "did you mean epochs?"),
        (["train", "c.yaml", "data.test=nosuch.txt"], "nosuch.txt"),
        (["train", "."], "not a run directory"),
        (["eval", "nosuch"], "nosuch: no such run"),
        (["eval"], "no run under"),
        (["predict", "rows.txt"], "no run under"),
        (["predict", "a", "b", "test.txt"], "[RUN] FILE"),
        (["predict", "test.txt", "--format", "xml"], "xml"),
        (["predict", "test.txt", "-k", "0"], "-k"),
        (["init", "nosuch/x.yaml"], "nosuch/x.yaml"),
        (["init", "--data", "nosuch.txt"], "nosuch.txt"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(work, xcl, arguments, word):
    one_line(xcl(*arguments), 2, "error: ", word)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--p-at", "1,x"], "1,3,5"),
        (["--p-at", "0"], "--p-at 0"),
        (["--ndcg-at", ""], "--ndcg-at"),
        (["--psp-at", "1", "--psp-a", "0"], "positive"),
        (["--psp-at", "1", "--psp-b", "nan"], "positive"),
        (["--data", "nosuch.txt"], "nosuch.txt"),
        (["--lsh"], "without hash tables"),
    ],
)
def test_mistakes_in_eval(trained, xcl, arguments, word):
    one_line(xcl("eval", "r-1", *arguments, cwd=trained), 2, word)


def test_mistakes_in_predict(trained, xcl):
    one_line(xcl("predict", "r-1", "nosuch.txt", cwd=trained), 2, "nosuch.txt: no such file")
    one_line(xcl("predict", "r-1", ".", cwd=trained), 2, ".: is a folder")


def test_several_config_mistakes_are_several_lines(work, xcl):
    Path("c.yaml").write_text("data: {train: train.txt, tst: x}\ntrain: {epochs: no}\n")
    done = xcl("train", "c.yaml")
    assert done.code == 2 and len(done.err.splitlines()) == 2
    assert "c.yaml:1:26: data.tst" in done.err and "c.yaml:2:17: train.epochs" in done.err


def test_init_writes_a_config_that_trains_and_never_overwrites(work, xcl):
    done = xcl("init", "--data", "train.txt", "new.yaml")
    assert done.code == 0 and done.out == ""
    text = Path("new.yaml").read_text()
    assert "train: train.txt" in text and "test: test.txt" in text
    one_line(xcl("init", "new.yaml"), 2, "new.yaml: exists already")
    assert Path("new.yaml").read_text() == text
    assert xcl("train", "new.yaml", "--quiet").code == 0
    assert json.loads(xcl("init", "--schema").out)["title"] == "xcl config"
    assert xcl("init", "-").out.startswith("# ")


def test_dry_run_prints_config_and_plan_and_leaves_nothing(work, xcl):
    done = xcl("train", "c.yaml", "train.epochs=3", "--dry-run")
    assert done.code == 0
    assert "epochs: 3" in done.out and "# command line" in done.out and "# default" in done.out
    assert "40 features + 12 labels) x 24 units" in done.err and "19 batches of 16 rows" in done.err
    assert not list(Path(".").glob("runs/[!.]*"))
    both = json.loads(xcl("train", "c.yaml", "--dry-run", "--json").out)
    assert both["plan"]["parameters"] == 41 * 24 + 12 * 25 and "hidden: [24]" in both["config"]


def test_what_does_not_fit_is_refused_with_the_arithmetic_and_a_width_that_fits(work, xcl):
    Path("wide.txt").write_text("2 2000000 5000000\n1 1:1\n2 5:1\n")
    arguments = ("train", "c.yaml", "data.train=wide.txt", "data.test=null", "model.hidden=[65536]")
    done = xcl(*arguments)
    one_line(done, 3, "TiB", "2,000,000 features + 5,000,000 labels) x 65,536", "available")
    width = int(re.search(r"model\.hidden=\[(\d+)\] fits", done.err).group(1))
    assert xcl(*arguments[:-1], f"model.hidden=[{width}]", "--dry-run").code == 0
    assert xcl(*arguments[:-1], f"model.hidden=[{2 * width}]", "--dry-run").code == 3
    assert not list(Path(".").glob("runs/[!.]*"))


def test_results_on_stdout_the_rest_on_stderr(work, xcl):
    done = xcl("train", "c.yaml", "--name", "r")
    assert re.fullmatch(r"test\.txt: 90 rows.*\n +P@1 +P@3 +P@5\n[ \d.]+\n", done.out)
    assert "epoch 6/6" in done.err and "runs/r-1" in done.err
    quiet = xcl("train", "c.yaml", "--name", "r", "--quiet")
    assert quiet.out == done.out and quiet.err == ""
    log = Path("runs/r-1/train.log").read_text()
    assert "epoch 6/6" in log and "P@1" in log


def test_json_lines_have_a_type_and_stable_fields(work, xcl):
    done = xcl("train", "c.yaml", "data.validation=0.2", "--json")
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert done.err == ""
    kinds = [line["type"] for line in lines]
    assert kinds[:2] == ["config", "plan"] and kinds[-1] == "end" and {"epoch", "eval", "notice"} <= set(kinds)
    epoch = next(line for line in lines if line["type"] == "epoch")
    assert {"epoch", "step", "loss", "active", "rows_per_second", "seconds"} <= set(epoch)
    assert lines[-2]["data"] == "test.txt" and {"p@1", "p@3", "p@5", "rows", "divisor", "ties"} <= set(lines[-2])


def test_eval_table_and_json_agree_and_name_their_definition(trained, xcl):
    options = ("--p-at", "1,5", "--psp-at", "1", "--psndcg-at", "3", "--ndcg-at", "3", "--recall-at", "5")
    table = xcl("eval", "r-1", *options, cwd=trained)
    found = json.loads(xcl("eval", "r-1", *options, "--json", cwd=trained).out)
    for name in ("p@1", "p@5", "psp@1", "psndcg@3", "ndcg@3", "recall@5"):
        assert 0 <= found[name] <= 1 and f"{100 * found[name]:.2f}" in table.out
    assert found["propensity"] == {"A": 0.55, "B": 1.5, "label_counts": "training file", "training_rows": 300}
    assert "A = 0.55, B = 1.5" in table.out and found["scoring"] == "exact" and found["rows"] == 90
    other = json.loads(xcl("eval", "r-1", *options, "--psp-a", "0.6", "--psp-b", "2.6", "--json", cwd=trained).out)
    assert other["p@1"] == found["p@1"] and other["psp@1"] != found["psp@1"] and other["propensity"]["B"] == 2.6


def test_eval_without_a_run_takes_the_latest_and_says_so(trained, xcl):
    done = xcl("eval", "--p-at", "1", cwd=trained)
    assert "runs/r-1 (the latest)" in done.err and "P@1" in done.out


def test_predictions_agree_with_eval_and_are_best_first(trained, xcl):
    done = xcl("predict", "r-1", "test.txt", "-k", "3", cwd=trained)
    rows = [line.split() for line in done.out.splitlines()]
    truth = [set(line.split()[0].split(",")) for line in (trained / "test.txt").read_text().splitlines()[1:]]
    assert len(rows) == len(truth) == 90
    hits = sum(row[0].split(":")[0] in labels for row, labels in zip(rows, truth, strict=True))
    p1 = json.loads(xcl("eval", "r-1", "--p-at", "1", "--json", cwd=trained).out)["p@1"]
    assert hits / 90 == pytest.approx(p1)
    for row in rows:
        scores = [float(pair.split(":")[1]) for pair in row]
        assert len(row) == 3 and scores == sorted(scores, reverse=True) and 0 <= min(scores) <= max(scores) <= 1


def test_formats_say_the_same(trained, xcl):
    def lines(format):
        return xcl("predict", "r-1", "test.txt", "-k", "2", "--format", format, cwd=trained).out.splitlines()

    for libsvm_line, tsv, text in zip(lines("libsvm"), lines("tsv"), lines("json"), strict=True):
        pairs = [pair.split(":") for pair in libsvm_line.split()]
        assert tsv.split("\t") == [part for pair in pairs for part in pair]
        assert json.loads(text) == {
            "labels": [int(label) for label, _ in pairs],
            "scores": [float(s) for _, s in pairs],
        }


def test_more_labels_than_there_are_is_said_once(trained, xcl):
    done = xcl("predict", "r-1", "test.txt", "-k", "50", cwd=trained)
    assert {len(line.split()) for line in done.out.splitlines()} == {N_LABELS}
    assert done.err.count("above the 12 labels") == 1


def test_a_file_and_a_pipe_give_the_same(trained, xcl):
    text = (trained / "test.txt").read_text()
    by_file = xcl("predict", "r-1", "test.txt", cwd=trained)
    assert xcl("predict", "r-1", "-", cwd=trained, input=text).out == by_file.out


def test_a_named_pipe_is_a_file_too(trained, xcl):
    os.mkfifo(trained / "pipe")
    feeder = subprocess.Popen(["sh", "-c", "cat test.txt > pipe"], cwd=trained)
    assert xcl("predict", "r-1", "pipe", cwd=trained).out == xcl("predict", "r-1", "test.txt", cwd=trained).out
    assert feeder.wait(10) == 0


def test_a_malformed_row_stops_or_counts_as_nothing(trained, xcl):
    rows = "0 0:1\n1 x:1\n\n"
    stopped = xcl("predict", "r-1", "-", "-k1", cwd=trained, input=rows)
    assert stopped.code == 2 and "stdin:2:3" in stopped.err
    blank = xcl("predict", "r-1", "-", "-k1", "--on-error", "blank", cwd=trained, input=rows)
    lines = blank.out.splitlines()
    assert blank.code == 0 and len(lines) == 3 and lines[1] == lines[2] and "1 malformed row" in blank.err


def test_a_pipe_is_answered_row_by_row(trained, spawn):
    process = spawn("predict", "r-1", "-", "-k", "1", cwd=trained, stdin=subprocess.PIPE)
    for _ in range(3):
        process.stdin.write("0 0:1 1:1\n")
        process.stdin.flush()
        assert select.select([process.stdout], [], [], 20)[0], "no answer while the pipe is open"
        assert process.stdout.readline().startswith("0:")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A folder with a run r-1 trained on texts with label names; tests must not write into it."""
    folder = tmp_path_factory.mktemp("texts")
    rows = [
        "a cat sat\tanimals,2020",
        "a dog ran\tanimals",
        "stocks fell\tbig money",
        "banks and stocks\tbig money,2020",
    ]
    (folder / "train.tsv").write_text("\n".join(rows * 10) + "\n")
    commands = [
        ("data", "vectorize", "train.tsv", "train.txt"),
        ("init", "--data", "train.txt", "c.yaml"),
        ("train", "c.yaml", "train.epochs=60", "train.batch_size=8", "--quiet", "--name", "r"),
    ]
    for command in commands:
        subprocess.run([sys.executable, "-m", "xcl", *command], cwd=folder, check=True, capture_output=True)
    return folder


def test_from_texts_to_named_predictions(texts, xcl, tmp_path):
    shutil.copytree(texts / "runs/r-1", tmp_path / "moved")  # the run alone suffices
    answers = xcl("predict", "moved", "--text", "-", "-k", "1", cwd=tmp_path, input="my dog\nthe stocks\tignored\n\n")
    best = [line.split("\t")[0] for line in answers.out.splitlines()]
    assert best[:2] == ["animals", "big money"] and len(best) == 3
    objects = xcl("predict", "moved", "--text", "-", "--format", "json", cwd=tmp_path, input="cat").out
    assert set(json.loads(objects)["labels"]) == {"animals", "big money", "2020"}
    by_id = xcl("predict", "r-1", "train.txt", "-k", "1", cwd=texts).out.split(":")[0]
    assert (
        xcl("predict", "r-1", "train.txt", "-k", "1", "--names", cwd=texts).out.startswith("animals")
        and by_id.isdigit()
    )


def test_text_from_a_pipe_is_answered_line_by_line(texts, spawn):
    process = spawn("predict", "r-1", "--text", "-", cwd=texts, stdin=subprocess.PIPE)
    for _ in range(2):
        process.stdin.write("a dog\n")
        process.stdin.flush()
        assert select.select([process.stdout], [], [], 20)[0], "no answer while the pipe is open"
        assert process.stdout.readline().startswith("animals\t")


def test_mistakes_with_texts_and_names(trained, texts, xcl):
    one_line(xcl("predict", "r-1", "--text", "test.txt", cwd=trained), 2, "not trained on texts", "vectorize")
    one_line(xcl("predict", "r-1", "--names", "test.txt", cwd=trained), 2, "labels.txt")
    one_line(xcl("predict", "r-1", "--names", "--format", "libsvm", "train.txt", cwd=texts), 2, "tsv or json")
    (trained / "bad.tsv").write_bytes(b"fine\n\xff\n")
    done = xcl("predict", "r-1", "--text", str(trained / "bad.tsv"), cwd=texts)
    assert done.code == 2 and "bad.tsv:2:1" in done.err and "Traceback" not in done.err


def test_a_reader_that_goes_away_ends_it_quietly(trained, spawn):
    rows = (trained / "test.txt").read_text().split("\n", 1)[1] * 300
    (trained / "many.txt").write_text(rows)
    for unbuffered in ("", "1"):
        process = spawn("predict", "r-1", "many.txt", cwd=trained, env={"PYTHONUNBUFFERED": unbuffered})
        process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read()
        assert process.wait(30) == 0 and err == ""


def test_training_goes_on_when_its_log_reader_goes_away(work, spawn):
    process = spawn("train", "c.yaml", "--name", "r")
    process.stderr.readline()
    process.stderr.close()
    assert "P@1" in process.stdout.read()
    assert process.wait(60) == 0 and Path("runs/r-1/model.safetensors").exists()


def test_a_run_alone_is_enough(trained, tmp_path, xcl):
    shutil.copytree(trained / "runs/r-1", tmp_path / "moved")
    shutil.copy(trained / "test.txt", tmp_path / "rows.txt")
    here = xcl("predict", "moved", "rows.txt", cwd=tmp_path)
    assert here.code == 0 and here.out == xcl("predict", "r-1", "test.txt", cwd=trained).out
    assert xcl("eval", "moved", "--data", "rows.txt", cwd=tmp_path).code == 0


def test_an_unfinished_run_is_used_by_its_checkpoint(trained, tmp_path, xcl):
    shutil.copytree(trained / "runs/r-1", tmp_path / "cut")
    os.remove(tmp_path / "cut/model.safetensors")
    done = xcl("predict", "cut", trained / "test.txt", cwd=tmp_path)
    assert "has not finished" in done.err and done.out == xcl("predict", "r-1", "test.txt", cwd=trained).out


def test_a_damaged_model_is_named(trained, tmp_path, xcl):
    shutil.copytree(trained / "runs/r-1", tmp_path / "r")
    model = tmp_path / "r/model.safetensors"
    whole = model.read_bytes()
    for length in (0, 1, 7, 8, 20, len(whole) // 2, len(whole) - 1):
        model.write_bytes(whole[:length])
        one_line(xcl("predict", "r", trained / "test.txt", cwd=tmp_path), 2, "model.safetensors", "cut or damaged")
    one_line(xcl("predict", trained / "test.txt", trained / "test.txt"), 2, "not a run directory")


def test_doctor_names_the_kernels_and_an_unknown_one_is_refused(xcl):
    done = xcl("doctor")
    assert done.code == 0 and "kernels:" in done.out and "portable" in done.out and "huge pages:" in done.out
    assert "kernels" in json.loads(xcl("doctor", "--json").out)
    forced = xcl("doctor", env={"XCL_ISA": "portable"})
    assert re.search(r"kernels: +portable", forced.out)
    one_line(xcl("doctor", env={"XCL_ISA": "nonsense"}), 2, "nonsense", "portable")


def test_no_control_characters_without_a_terminal(work, xcl):
    for env in ({}, {"FORCE_COLOR": "1"}, {"TERM": "dumb"}):
        done = xcl("train", "c.yaml", "train.epochs=300", "data.validation=0.1", env=env)
        assert not re.search(r"[\x00-\x08\x0b-\x1f]", done.out + done.err)
        assert len(done.err.splitlines()) < 100


def in_terminal(*arguments, env=None):
    """Output of a process whose stdout and stderr are a terminal."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "xcl", *arguments]
    environment = {k: v for k, v in os.environ.items() if k != "CI"} | {"TERM": "xterm", "COLUMNS": "80"} | (env or {})
    process = subprocess.Popen(command, stdout=slave, stderr=slave, stdin=slave, env=environment)
    os.close(slave)
    out = b""
    while True:
        try:
            block = os.read(master, 65536)
        except OSError:
            break
        if not block:
            break
        out += block
    os.close(master)
    assert process.wait(60) == 0, out
    return out.decode()


def test_a_terminal_gets_a_live_display_and_a_dumb_one_plain_lines(work):
    arguments = ("train", "c.yaml", "--threads=1", "train.epochs=200", "data.validation=0.1")
    live = in_terminal(*arguments)
    assert "\x1b[" in live and "rows/s" in live and "P@1" in live
    for env in ({"TERM": "dumb"}, {"CI": "1"}, {"NO_LIVE": "1"}):
        assert "\x1b" not in in_terminal(*arguments[:3], env=env)
    assert not re.search(r"\x1b\[(3|4|9)\d", in_terminal(*arguments, env={"NO_COLOR": "1"}))


def test_completion_knows_commands_runs_and_keys(trained):
    def complete(line):
        env = {**os.environ, "_XCL_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()))}
        script = Path(sys.executable).with_name("xcl")
        return subprocess.run([script], env=env, cwd=trained, capture_output=True, text=True).stdout.split()

    assert "train" in complete("xcl ")
    assert "train.epochs=" in complete("xcl train c.yaml ")
    assert "runs/r-1" in complete("xcl eval ")
