# SPDX-License-Identifier: MIT
"""Small learnable data sets, and the command line run in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

N_FEATURES, N_LABELS = 40, 12


def libsvm(n_rows, seed, header=True):
    """Rows in which label l comes with features 2l and 2l + 1, under some noise."""
    rng = np.random.default_rng(seed)
    lines = [f"{n_rows} {N_FEATURES} {N_LABELS}"] if header else []
    for _ in range(n_rows):
        labels = sorted(set(rng.integers(0, N_LABELS, 2).tolist()))
        features = {2 * label + i: 1.0 for label in labels for i in range(2)}
        features |= {int(f): 0.3 for f in rng.integers(0, N_FEATURES, 2) if int(f) not in features}
        pairs = " ".join(f"{f}:{v:g}" for f, v in sorted(features.items()))
        lines.append(",".join(map(str, labels)) + " " + pairs)
    return "\n".join(lines) + "\n"


@pytest.fixture
def work(tmp_path, monkeypatch):
    """An empty current folder with train.txt, test.txt and the config c.yaml."""
    monkeypatch.chdir(tmp_path)
    Path("train.txt").write_text(libsvm(300, 1))
    Path("test.txt").write_text(libsvm(90, 2))
    Path("c.yaml").write_text(
        "data: {train: train.txt, test: test.txt}\n"
        "model: {hidden: [24], dropout: 0.2}\n"
        "optimizer: {learning_rate: 0.05}\n"
        "train: {epochs: 6, batch_size: 16}\n"
    )
    return tmp_path


def start(*arguments, **options):
    """Start `xcl` with arguments in a process of its own."""
    environment = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "CI", "XCL_ISA")}
    environment |= options.pop("env", {})
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, "text": True}
    command = [sys.executable, "-m", "xcl", *map(str, arguments)]
    return subprocess.Popen(command, env=environment, **{**streams, **options})


class Finished:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def xcl():
    """Run `xcl` with arguments; exit code, stdout, stderr. Always: no traceback."""

    def run(*arguments, **options):
        given = options.pop("input", None)
        if given is not None:
            options["stdin"] = subprocess.PIPE
        process = start(*arguments, **options)
        out, err = process.communicate(given, timeout=120)
        assert "Traceback" not in (out or "") + (err or ""), err
        return Finished(process.returncode, out, err)

    return run


@pytest.fixture
def spawn():
    """Start `xcl` and leave it running; killed at the end of the test."""
    started = []

    def run(*arguments, **options):
        started.append(start(*arguments, **options))
        return started[-1]

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
