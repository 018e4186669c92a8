"""xcl data: what the commands print, write and refuse."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

COMMANDS = ["info", "check", "convert", "split", "vectorize", "synth"]
ROWS = "5 9 6\n0 0:0.1 3:0.333333343\n 1:16777217\n2,4\n4 7:1e-7\n1 2:3.4e38\n"


def xcl(folder: Path, *arguments: str, stdin: str = "", code: int = 0) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "xcl", "data", *arguments], cwd=folder, input=stdin, capture_output=True, text=True
    )
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text(ROWS)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_a_screen_and_shows_an_example(tmp_path: Path, command: str) -> None:
    out, _ = xcl(tmp_path, command, "--help")
    assert len(out.splitlines()) <= 32
    assert f"xcl data {command} " in out.partition("Arguments:")[0]


def test_info(folder: Path) -> None:
    out, err = xcl(folder, "info", "a.txt")
    assert err == ""
    assert out.splitlines() == [
        "a.txt",
        "rows                           5  header 5 9 6",
        "  without labels               1",
        "  without features             1",
        "features                       9  ids count from 0",
        "labels                         6  ids count from 0; 4 occur",
        "features a row              1.00  least 0, median 1, most 2",
        "labels a row                1.00  least 0, median 1, most 2",
        "rows a label                1.25  least 1, median 1, most 2",
        "  under 5 rows                 4  100.0% of the labels that occur",
    ]
    out, _ = xcl(folder, "info", "-", stdin="1,2 1:1 3:1\n")
    assert "no header: sizes are those found" in out and "stdin: feature and label ids count from 1" in out
    xcl(folder, "convert", "a.txt", "a.npz")
    assert xcl(folder, "info", "a.npz")[0].splitlines()[1:] == xcl(folder, "info", "a.txt")[0].splitlines()[1:]


def test_info_for_scripts(folder: Path) -> None:
    record = json.loads(xcl(folder, "info", "a.txt", "--json")[0])
    assert (record["rows"], record["features"], record["labels"], record["header"]) == (5, 9, 6, True)
    assert record["features_a_row"] == {"least": 0, "median": 1.0, "mean": 1.0, "most": 2}
    assert (record["rows_without_labels"], record["rows_without_features"]) == (1, 1)


def test_check(folder: Path) -> None:
    out, err = xcl(folder, "check", "a.txt")
    assert out.splitlines()[0] == "a.txt: all right: 5 rows, 9 features, 6 labels" and err == ""
    text = "0 2:1 1:1 qid:1\n0 1:1\nx\n0 5:1:2\n"
    out, err = xcl(folder, "check", "-", stdin=text, code=2)
    assert (out, err) == (
        "",
        "error: stdin:3:1: 'x': expected a label id (a whole number), or features as id:value\n",
    )
    out, _ = xcl(folder, "check", "-", "--on-error", "skip", stdin=text)
    assert "stdin: readable: 2 rows" in out and "1 row had unsorted features" in out and "1 qid field" in out
    assert "2 malformed rows skipped, first 3:1: 'x'" in out and "4:3: '5:1:2': a blank is missing" in out
    _, err = xcl(folder, "check", "a.txt", "--on-error", "ignore", code=2)
    assert err == "error: --on-error ignore: not one of stop, skip\n"
    for name in ("nothing", "."):
        assert len(xcl(folder, "check", name, code=2)[1].splitlines()) == 1


def test_convert_there_and_back(folder: Path) -> None:
    xcl(folder, "convert", "a.txt", "b.npz")
    xcl(folder, "convert", "b.npz", "c.txt")
    xcl(folder, "convert", "c.txt", "d.txt.gz")
    xcl(folder, "convert", "d.txt.gz", "e.txt")
    assert (folder / "c.txt").read_text() == ("5 9 6\n0 0:0.1 3:0.33333334\n 1:16777216\n2,4\n4 7:1e-7\n1 2:3.4e38\n")
    assert (folder / "e.txt").read_bytes() == (folder / "c.txt").read_bytes()
    out, _ = xcl(folder, "convert", "a.txt", "-")
    assert out == (folder / "c.txt").read_text()
    _, err = xcl(folder, "convert", "a.txt", "c.txt", code=2)
    assert err == "error: c.txt: exists already; --force replaces it\n"
    xcl(folder, "convert", "a.txt", "c.txt", "--force")
    assert sorted(p.name for p in folder.iterdir()) == ["a.txt", "b.npz", "c.txt", "d.txt.gz", "e.txt"]


def test_convert_keeps_ids_that_count_from_one(folder: Path) -> None:
    (folder / "one.txt").write_text("2 3 2\n1 1:1 3:2\n2 2:1\n")
    _, err = xcl(folder, "convert", "one.txt", "one.npz")
    assert err == "note: one.txt: feature and label ids count from 1\n"
    assert xcl(folder, "convert", "one.npz", "-")[0] == (folder / "one.txt").read_text()


def test_split(folder: Path) -> None:
    lines = [f"{i % 7} {i}:1" for i in range(100)]
    (folder / "all.txt").write_text("\n".join(lines))
    xcl(folder, "split", "all.txt", "train.txt", "test.txt", "--rows", "30", "--seed", "5")
    parts = [(folder / name).read_text().splitlines() for name in ("train.txt", "test.txt")]
    assert parts[0][0] == "70 100 7" and parts[1][0] == "30 100 7"
    ids = [[int(line.split()[1][:-2]) for line in part[1:]] for part in parts]
    assert ids[0] == sorted(ids[0]) and ids[1] == sorted(ids[1])
    assert sorted(ids[0] + ids[1]) == list(range(100))
    assert np.mean(ids[1]) != np.mean(range(70, 100))
    before = (folder / "test.txt").read_bytes()
    xcl(folder, "split", "all.txt", "train.txt", "test.txt", "--share", "0.3", "--seed", "5", "-f")
    assert (folder / "test.txt").read_bytes() == before
    for wrong in (["--rows", "100"], ["--share", "1"], ["--share", "nan"]):
        xcl(folder, "split", "all.txt", "x.txt", "y.txt", *wrong, code=2)
    xcl(folder, "split", "all.txt", "x.txt", "./x.txt", code=2)
    xcl(folder, "split", "all.txt", "x.txt", "test.txt", code=2)
    assert not (folder / "x.txt").exists()
    (folder / "one.txt").write_text("1 1:1\n2 2:1\n3 3:1\n")
    _, err = xcl(folder, "split", "one.txt", "x.txt", "y.txt", "--rows", "1")
    assert "in the new files they count from 0" in err


def test_vectorize(folder: Path) -> None:
    (folder / "t.tsv").write_text("a cat sat\tanimals,pets\na stock fell\tmoney\n")
    out, _ = xcl(folder, "vectorize", "t.tsv", "t.txt", "--min-rows", "1")
    assert out == "t.txt: 2 rows, 5 features (words), 3 labels\n"
    assert (folder / "t.labels.txt").read_text() == "animals\nmoney\npets\n"
    (folder / "u.tsv").write_text("cat\tcats\nno\n")
    out, err = xcl(folder, "vectorize", "u.tsv", "u.txt", "--like", "t.txt")
    assert err.splitlines() == [
        "note: label names that are not in t.txt, which its models cannot predict: 1",
        "note: rows without a label: 1",
        "note: rows without a known word: 1",
    ]
    _, err = xcl(folder, "vectorize", "t.tsv", "t.txt", code=2)
    assert err == "error: t.txt: exists already; --force replaces it\n"
    _, err = xcl(folder, "vectorize", "-", "v.txt", stdin="a\tb\n", code=2)
    assert err == "error: -: not a file; the texts are read twice\n"
    _, err = xcl(folder, "vectorize", "u.tsv", "v.txt", "--like", "a.txt", code=2)
    assert err == "error: a.words.tsv: no such file\n"


def test_synth(folder: Path) -> None:
    arguments = ("--rows", "200", "--features", "300", "--labels", "50")
    xcl(folder, "synth", "s.txt", *arguments, "--test", "s2.txt.gz", "--test-rows", "20")
    xcl(folder, "synth", "again.txt", *arguments)
    assert (folder / "again.txt").read_bytes() == (folder / "s.txt").read_bytes()
    assert (folder / "s.txt").read_text().startswith("200 300 50\n")
    assert "all right: 20 rows, 300 features, 50 labels" in xcl(folder, "check", "s2.txt.gz")[0]
    xcl(folder, "synth", "s.npz", *arguments)
    assert xcl(folder, "convert", "s.npz", "-")[0] == (folder / "s.txt").read_text()
    xcl(folder, "synth", "s.txt", code=2)
