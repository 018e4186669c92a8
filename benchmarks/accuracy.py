# SPDX-License-Identifier: MIT
"""Accuracy, time and memory of one preset on whole data sets: a table and a JSON file.

    python benchmarks/accuracy.py --data FOLDER [--preset configs/presets/recommended.yaml] [--seeds 1,2,3] [SET ...]

FOLDER holds a folder a set with train.txt.gz and test.txt.gz. Each set is trained with the preset alone, then the
test file is scored once; nothing is chosen by the test file. Figures are medians over the seeds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SETS = (
    "finna-yso-sample",
    "bibtex",
    "delicious",
    "debian-depends",
    "wordnet-neigh",
    "dict-reverse",
    "finna-yso-en",
)
METRICS = ("p@1", "p@3", "p@5", "ndcg@5", "psp@1", "psp@3", "psp@5")
COLUMNS = (*METRICS, "train_seconds", "peak_gib", "model_mib", "test_ms_a_row")


def call(arguments: list[str], folder: Path) -> list[dict[str, Any]]:
    """Run xcl in a folder; its JSON lines."""
    done = subprocess.run(["xcl", *arguments], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"xcl {' '.join(arguments)}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def measure(data: Path, preset: Path, seed: int, threads: int, overrides: list[str]) -> dict[str, float]:
    """Train and evaluate one set once."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train = ["train", str(preset), f"data.train={data / 'train.txt.gz'}", f"train.seed={seed}", *overrides]
        lines = call([*train, "--threads", str(threads), "--name", "run", "--json"], folder)
        end = next(line for line in lines if line["type"] == "end")
        run = folder / end["run"]
        started = time.perf_counter()
        at = ["--p-at", "1,3,5", "--ndcg-at", "5", "--psp-at", "1,3,5"]
        result = call(
            ["eval", str(run), "--data", str(data / "test.txt.gz"), *at, "--threads", str(threads), "--json"], folder
        )[-1]
        seconds = time.perf_counter() - started
        return {
            **{name: 100 * result[name] for name in METRICS},
            "train_seconds": end["seconds"],
            "peak_gib": end["peak_memory_bytes"] / 2**30,
            "model_mib": (run / "model.safetensors").stat().st_size / 2**20,
            "test_ms_a_row": 1000 * seconds / result["rows"],
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--preset", type=Path, default=Path("configs/presets/recommended.yaml"))
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, help="JSON file")
    arguments = parser.parse_args()
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    found: dict[str, list[dict[str, float]]] = {}
    print("| set | " + " | ".join(COLUMNS) + " |\n|" + " --- |" * (len(COLUMNS) + 1), flush=True)
    for name in arguments.sets:
        folder, preset = (arguments.data / name).absolute(), arguments.preset.absolute()
        found[name] = [measure(folder, preset, seed, arguments.threads, arguments.overrides) for seed in seeds]
        cells = [statistics.median(run[column] for run in found[name]) for column in COLUMNS]
        print(f"| {name} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |", flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
