# SPDX-License-Identifier: MIT
"""Speed of reading libsvm text on one core, beside other readers: a table and a JSON file.

    python benchmarks/parse.py FILE [--rivals PYTHON] [--rounds 5] [--json OUT]

FILE is multi-label libsvm text, packed or not; it is unpacked once, before anything is measured. PYTHON is an
interpreter that has scikit-learn, napkinxc or omikuji; what it lacks is left out. Every reading is a process of its
own, pinned to one core; readers take turns, and figures are medians over the rounds. Time is that of the reading
call alone, after all imports; peak memory is that of the whole process.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

Read = Callable[[str], object]


def xcl_parse() -> Read:
    from xcl.dataset.read import blocks, open_file
    from xcl.dataset.text import Parser
    from xcl.native import Engine

    engine = Engine(1)

    def read(path: str) -> None:
        with open_file(path) as file:
            for _ in Parser(engine, path).parse(blocks(file, path)):
                pass

    return read


def xcl_load() -> Read:
    from xcl.dataset.load import load
    from xcl.native import Engine

    engine = Engine(1)
    folder = tempfile.TemporaryDirectory(dir=os.environ["XCL_BENCH_FOLDER"])
    return lambda path: (load(path, engine, Path(folder.name)), folder)


def scikit_learn() -> Read:
    from sklearn.datasets import load_svmlight_file

    return lambda path: load_svmlight_file(path + ".headless", multilabel=True, dtype="float32", zero_based=True)


def napkinxc() -> Read:
    from napkinxc.datasets import load_libsvm_file

    return lambda path: load_libsvm_file(path, labels_format="csr_matrix")


def omikuji() -> Read:
    from omikuji import _ThreadPoolHandle, ffi, lib

    pool = _ThreadPoolHandle(1)
    return lambda path: lib.load_omikuji_data_set(ffi.new("char[]", path.encode()), pool.ptr)


READERS: dict[str, tuple[Callable[[], Read], str]] = {
    "xcl, parse": (xcl_parse, "all rows, not kept"),
    "xcl, first load": (xcl_load, "checksum, parse, binary copy written and mapped"),
    "scikit-learn": (scikit_learn, "load_svmlight_file, multilabel, header line removed"),
    "napkinxc": (napkinxc, "load_libsvm_file, labels as CSR"),
    "omikuji": (omikuji, "load_omikuji_data_set"),
}


def child(name: str, path: str) -> None:
    """Read once on one core and print the figures, or "absent"."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    try:
        read = READERS[name][0]()
    except ImportError:
        print(json.dumps("absent"))
        return
    start, cpu = time.perf_counter(), time.process_time()
    kept = read(path)
    figures = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    del kept
    print(json.dumps({**figures, "peak_mib": peak}))


def measure(python: str, name: str, path: Path) -> dict[str, float] | None:
    """The figures of one reading; None if the reader is absent or fails."""
    environment = {**os.environ, "XCL_BENCH_FOLDER": str(path.parent)}
    done = subprocess.run(
        [python, __file__, "--child", name, str(path)], capture_output=True, text=True, env=environment
    )
    if done.returncode != 0:
        print(f"{name}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    figures = json.loads(done.stdout.splitlines()[-1])
    return None if figures == "absent" else figures


def unpack(source: Path, path: Path) -> int:
    """Write the text, and without its header for readers that know none; its size in bytes."""
    from xcl.dataset.read import blocks, open_file

    with open_file(source) as file, open(path, "wb") as out, open(f"{path}.headless", "wb") as headless:
        for i, block in enumerate(blocks(file, str(source))):
            out.write(block)
            head, end, rest = block.partition(b"\n")
            headless.write(rest if i == 0 and len(head.split()) == 3 and b":" not in head else head + end + rest)
    return path.stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rivals", metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    pythons = {name: sys.executable for name in READERS if name.startswith("xcl")}
    if options.rivals:
        pythons |= {name: options.rivals for name in READERS if name not in pythons}
    runs: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.txt"
        megabytes = unpack(options.file, path) / 1e6
        for _ in range(options.rounds):
            for name, python in pythons.items():
                figures = measure(python, name, path)
                if figures:
                    runs.setdefault(name, []).append(figures)
    print(f"{options.file}: {megabytes:.0f} MB of text, one core, medians of {options.rounds}")
    print(f"{'reader':<18}{'seconds':>9}{'MB/s':>7}{'CPU s':>8}{'peak MiB':>10}  what is done")
    table = {}
    for name, rounds in runs.items():
        row = {key: statistics.median(figures[key] for figures in rounds) for key in rounds[0]}
        table[name] = {**row, "mb_per_second": megabytes / row["seconds"]}
        figures = f"{row['seconds']:>9.3f}{megabytes / row['seconds']:>7.0f}{row['cpu_seconds']:>8.3f}"
        print(f"{name:<18}{figures}{row['peak_mib']:>10.0f}  {READERS[name][1]}")
    if options.json:
        record = {"file": str(options.file), "megabytes": megabytes, "rounds": options.rounds, "readers": table}
        options.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    else:
        main()
