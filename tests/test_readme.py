# SPDX-License-Identifier: MIT
"""The README's commands work as they stand, and every shipped config loads and starts as its head says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import libsvm

from xcl.config import load
from xcl.config.schema import KEYS

ROOT = Path(__file__).parents[1]
CONFIGS = sorted(ROOT.glob("configs/**/*.yaml"))
BLOCKS = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.S)


@pytest.fixture
def shell(tmp_path):
    """Run commands in a folder with rows and texts, with this environment's xcl on the PATH."""
    (tmp_path / "train.txt").write_text(libsvm(200, 1))
    (tmp_path / "test.txt").write_text(libsvm(50, 2))
    (tmp_path / "texts.tsv").write_text("stocks fell\tmoney\na cat sat\tanimals,pets\n" * 20)

    def run(commands):
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        script = "set -euo pipefail\n" + commands
        return subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True
        )

    return run


@pytest.mark.parametrize("commands", [b for b in BLOCKS if "make" not in b])
def test_commands_of_the_readme(shell, commands):
    done = shell(commands)
    assert done.returncode == 0, done.stderr
    if "predict --text" in commands:
        assert done.stdout.splitlines()[-1].startswith("money\t")


def test_the_readme_names_make_targets_and_folders_that_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert {"train", "test"} <= targets
    assert set(re.findall(r"make ([a-z-]+)", "".join(BLOCKS))) <= targets
    for folder in re.findall(r"^\| `(\w[\w/]*)/`", (ROOT / "README.md").read_text(), re.M):
        assert (ROOT / folder).is_dir(), folder


def test_there_are_configs():
    names = {path.name for path in CONFIGS}
    assert {
        "quickstart.yaml",
        "recommended.yaml",
        "fast.yaml",
        "slide-amazon-670k.yaml",
        "bolt-amazon-670k.yaml",
    } <= names


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.name)
def test_shipped_configs_load_and_begin_with_command_score_and_memory(path):
    head = path.read_text().splitlines()[:3]
    assert all(line.startswith("# ") for line in head)
    command = head[0].partition(":  ")[2].split()
    assert command[:3] == ["xcl", "train", str(path.relative_to(ROOT))]
    loaded = load(path, command[3:])
    assert "Memory: " in head[2]
    wanted = loaded.config.data.train
    assert wanted.is_file() or "datasets/README.md" in head[2] or "data.train=" in head[0], wanted


@pytest.mark.parametrize("path", [p for p in CONFIGS if p.name != "quickstart.yaml"], ids=lambda p: p.name)
def test_shipped_configs_train(path, shell):
    done = shell(
        f"xcl train {path} data.train=train.txt data.test=test.txt train.epochs=1 model.hidden=[32] "
        "sampler.tables=4 sampler.hashes_per_table=2 --quiet"
    )
    assert done.returncode == 0, done.stderr
    assert "P@5" in done.stdout


@pytest.mark.slow
def test_the_quick_start_beats_the_tree(shell):
    """A tree of linear classifiers has P@1 36.9 and P@5 21.1 on these rows."""
    done = shell(f"xcl train {ROOT / 'configs/quickstart.yaml'} --quiet")
    p1, _, p5 = map(float, done.stdout.splitlines()[-1].split())
    assert p1 >= 37 and p5 >= 21


def test_every_key_is_read_somewhere():
    """No dead options: each key is used outside the schema by its section and name."""
    code = "".join(p.read_text() for p in (ROOT / "xcl").glob("*.py")) + (ROOT / "xcl/config/schema.py").read_text()
    for key in KEYS.values():
        uses = rf"\b{key.section}\.{key.name}\b" if key.section else rf"config\.{key.name}\b"
        assert re.search(uses, code), key.path
