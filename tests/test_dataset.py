"""Files to data sets: compression, binary copies, archives, streams, writing."""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from xcl.dataset import cache, npz, read
from xcl.dataset.csr import Csr
from xcl.dataset.load import IdSpace, load
from xcl.dataset.read import blocks, open_file
from xcl.dataset.stream import RowStream
from xcl.dataset.text import Parser
from xcl.dataset.write import TextWriter, open_text, refuse_existing, write
from xcl.errors import ResourceError, UserError
from xcl.native import Engine

ENGINE = Engine(2)
ROWS = b"4 9 6\n0 0:0.5 3:1.25\n 1:2\n2,4\n5 8:1e-7\n"
MODEL = IdSpace(0, 0, 9, 6)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def put(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def dense(csr: Csr) -> np.ndarray:
    return csr.to_scipy().toarray()


def same(a: Csr, b: Csr) -> bool:
    values = (a.values is None and b.values is None) or np.array_equal(a.values, b.values)
    return (
        np.array_equal(a.indptr, b.indptr) and np.array_equal(a.indices, b.indices) and values and a.n_cols == b.n_cols
    )


def random_rows(n: int, n_features: int = 500, n_labels: int = 60, seed: int = 0) -> tuple[Csr, Csr]:
    rng = np.random.default_rng(seed)
    x = sp.random(n, n_features, 0.02, "csr", np.float32, rng)
    y = sp.random(n, n_labels, 0.03, "csr", np.float32, rng)
    return Csr.from_scipy(x), Csr.from_scipy(y, binary=True)


def as_text(x: Csr, y: Csr, bases: tuple[int, int] = (0, 0)) -> bytes:
    out = io.BytesIO()
    TextWriter(out, (x.n_rows, x.n_cols, y.n_cols), bases).append(x, y)
    return out.getvalue()


# ---- reading


def pack(method: str, data: bytes) -> bytes:
    return {"gz": gzip.compress, "bz2": bz2.compress, "zst": zstandard.compress, "txt": bytes}[method](data)


@pytest.mark.parametrize("method", ["gz", "bz2", "zst", "txt"])
@pytest.mark.parametrize("parts", [1, 3])
def test_compression_is_told_by_content(tmp_path: Path, method: str, parts: int) -> None:
    data = bytes(range(65, 91)) * 40_000 + b"\n"
    cuts = [len(data) * i // parts for i in range(parts + 1)]
    packed = b"".join(pack(method, data[a:b]) for a, b in itertools.pairwise(cuts))
    path = put(tmp_path / "name.says.nothing", packed)
    with open_file(path) as file:
        assert b"".join(blocks(file, "f")) == data


@pytest.mark.parametrize("method", ["gz", "bz2", "zst"])
def test_a_cut_or_damaged_archive_is_one_line(tmp_path: Path, folder: Path, method: str) -> None:
    rng = np.random.default_rng(1)
    packed = pack(method, "".join(f"{i % 7} {i}:{v}\n" for i, v in enumerate(rng.random(30_000))).encode())
    for end in (len(packed) // 2, len(packed) - 1, 20):
        path = put(tmp_path / "cut", packed[:end])
        with pytest.raises(UserError, match=rf"^{path}: the \w+ data end too early: the file is cut off$"):
            load(path, ENGINE, folder)
    damaged = bytearray(packed)
    damaged[len(packed) // 2 :: 97] = b"\xff" * len(damaged[len(packed) // 2 :: 97])
    path = put(tmp_path / "damaged", bytes(damaged))
    with pytest.raises(UserError, match=rf"^{path}(: damaged \w+ data|:\d+:\d+: )"):
        load(path, ENGINE, folder)
    path = put(tmp_path / "tail", packed + b"more")
    with pytest.raises(UserError, match=rf"^{path}: damaged \w+ data"):
        load(path, ENGINE, folder)
    assert not list(folder.glob(".*")) and not list(folder.glob("*" + cache.SUFFIX))


def test_padding_after_an_archive_is_ignored(tmp_path: Path, folder: Path) -> None:
    assert load(put(tmp_path / "a", gzip.compress(ROWS) + bytes(1000)), ENGINE, folder).x.n_rows == 4


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no rows"),
        (b"# only a comment\n", "no rows"),
        (b"0 9 6\n", "no rows"),
        (gzip.compress(b""), "no rows"),
        (b"\xfd7zXZ\0rest", "xz archive"),
        (b"PK\x03\x04rest", "not a numpy archive"),
        (b"\0" * 100_000, "binary data"),
        (b"\x93NUMPY\x01\0", "a numpy array"),
        (b"\x20\0\0\0\0\0\0\0{}", "binary data"),
        (b"\x20\0\0\0\0\0\0\0{\n}", r":1:2: byte 0x00"),
        (b"a,b,c\n1,2,3\n", r":1:1: 'a,b,c': expected a label id"),
        (b"1\xc3\xa4 2:1\n", r":1:1: '1\?\?': expected labels"),
    ],
)
def test_what_is_no_text_is_refused_in_one_line(tmp_path: Path, folder: Path, data: bytes, message: str) -> None:
    path = put(tmp_path / "f", data)
    with pytest.raises(UserError, match=message) as e:
        load(path, ENGINE, folder)
    assert str(e.value).startswith(str(path)) and "\n" not in str(e.value)


def test_what_cannot_be_opened(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        load(tmp_path / "nothing", ENGINE, folder)
    with pytest.raises(UserError, match="is a folder"):
        load(tmp_path, ENGINE, folder)
    with pytest.raises(UserError, match="null byte"):
        load("a\0b", ENGINE, folder)


def test_an_error_of_the_reader_reaches_the_caller_and_ends_its_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    path = put(tmp_path / "f", gzip.compress(os.urandom(9 << 20))[:-100])
    with open_file(path) as file, pytest.raises(UserError):
        list(blocks(file, "f"))
    with open_file(put(tmp_path / "g", b"1\n" * (5 << 20))) as file:
        iterator = blocks(file, "g")
        next(iterator)
        iterator.close()
    assert threading.active_count() == before


# ---- loading


def test_load_gives_both_matrices(tmp_path: Path, folder: Path) -> None:
    data = load(put(tmp_path / "a.txt", ROWS), ENGINE, folder)
    assert dense(data.x).tolist() == [
        [0.5, 0, 0, 1.25, 0, 0, 0, 0, 0],
        [0, 2, 0, 0, 0, 0, 0, 0, 0],
        [0] * 9,
        [0] * 8 + [float(np.float32(1e-7))],
    ]
    assert dense(data.y).tolist() == [[1, 0, 0, 0, 0, 0], [0] * 6, [0, 0, 1, 0, 1, 0], [0, 0, 0, 0, 0, 1]]
    assert data.ids == MODEL
    assert (data.stats.n_rows_without_labels, data.stats.n_rows_without_features) == (1, 1)
    assert data.notices == ()
    assert data.x.indices.dtype == np.int32 and data.x.indptr.dtype == np.int64 and data.x.values.dtype == np.float32
    assert all(a.ctypes.data % 64 == 0 for a in (data.x.indices, data.x.values, data.x.indptr, data.y.indices))
    assert not data.x.values.flags.writeable


def test_the_second_start_does_not_parse(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "a.txt", ROWS)
    os.utime(path, (1e9, 1e9))
    first = load(path, ENGINE, folder)
    monkeypatch.setattr(Parser, "feed", None)
    second = load(path, ENGINE, folder)
    assert same(first.x, second.x) and same(first.y, second.y)
    assert (first.ids, first.stats, first.checksum) == (second.ids, second.stats, second.checksum)
    moved = tmp_path / "b.txt"
    shutil.copy(path, moved)
    assert load(moved, ENGINE, folder).checksum == first.checksum


def test_a_changed_file_is_parsed_again(tmp_path: Path, folder: Path) -> None:
    path = put(tmp_path / "a.txt", ROWS)
    os.utime(path, (1e9, 1e9))
    load(path, ENGINE, folder)
    for value in (b"0.7", b"0.9"):
        put(path, ROWS.replace(b"0.5", value))  # the same size, changed just now
        assert load(path, ENGINE, folder).x.values[0] == np.float32(float(value))
    os.utime(path, (1e9 + 5, 1e9 + 5))
    load(path, ENGINE, folder)
    assert len(json.loads((folder / "memo.json").read_text())) == 1


def test_bases_are_decided_by_the_training_file(tmp_path: Path, folder: Path) -> None:
    train = load(put(tmp_path / "train", "1 1:1 3:2\n2 2:1\n"), ENGINE, folder)
    assert train.ids == IdSpace(1, 1, 3, 2)
    assert train.x.indices.tolist() == [0, 2, 1] and train.y.indices.tolist() == [0, 1]
    assert train.notices == (f"{tmp_path}/train: feature and label ids count from 1",)
    test = load(put(tmp_path / "test", "2 2:1 9:1\n5 3:1\n"), ENGINE, folder, train.ids)
    assert test.ids == train.ids and test.notices == ()
    assert test.x.indices.tolist() == [1, 8, 2] and test.x.n_cols == 9
    assert test.y.indices.tolist() == [1, 4] and test.y.n_cols == 5
    narrow = load(put(tmp_path / "narrow", "1 1:1\n"), ENGINE, folder, IdSpace(0, 0, 50, 60))
    assert (narrow.x.n_cols, narrow.y.n_cols, narrow.x.indices.tolist()) == (50, 60, [1])
    with pytest.raises(UserError, match="1:3: feature 0, but the training file counts features from 1"):
        load(put(tmp_path / "zero", "1 0:1\n"), ENGINE, folder, train.ids)
    alone = load(tmp_path / "test", ENGINE, folder)
    assert alone.ids == IdSpace(0, 0, 10, 6)


def test_large_base_one_ids_are_shifted_in_every_chunk(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_SHIFT_ITEMS", 7)
    x, y = random_rows(50)
    zero = load(put(tmp_path / "zero", as_text(x, y)), ENGINE, folder)
    one = load(put(tmp_path / "one", as_text(x, y, (1, 1))), ENGINE, folder, IdSpace(1, 1, x.n_cols, y.n_cols))
    assert same(zero.x, x) and same(zero.y, y) and same(one.x, x) and same(one.y, y)


def test_notices_are_one_line_each(tmp_path: Path, folder: Path) -> None:
    text = "0,0 2:1 1:1 qid:3\n0 qid:3 1:1 1:1\nbad\n0 1:x\n"
    data = load(put(tmp_path / "f", text), ENGINE, folder, on_error="skip")
    assert [notice.removeprefix(f"{tmp_path}/f: ") for notice in data.notices] == [
        "feature ids count from 1",
        "1 row had unsorted features (sorted)",
        "1 duplicate feature (summed)",
        "1 duplicate label (dropped)",
        "2 qid fields (ignored)",
        "2 malformed rows skipped, first 3:1: 'bad': expected a label id (a whole number), or features as id:value; "
        "4:5: 'x': expected a finite decimal number",
    ]
    with pytest.raises(UserError, match="3:1: 'bad'"):  # its copy is not taken for one without errors
        load(tmp_path / "f", ENGINE, folder)


def test_skipping_settles_a_contradictory_base(tmp_path: Path, folder: Path) -> None:
    data = load(put(tmp_path / "f", "2 4 2\n0 4:1\n1 0:1\n"), ENGINE, folder, on_error="skip")
    assert data.ids == IdSpace(0, 0, 4, 2)
    assert data.x.n_rows == 1 and "feature 4, but the header declares 4" in data.notices[0]


def damage_cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 5)


def damage_header(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[30] ^= 1
    path.write_bytes(data)


def damage_all(path: Path) -> None:
    path.write_bytes(b"")


def damage_longer(path: Path) -> None:
    with open(path, "ab") as file:
        file.write(b"x")


@pytest.mark.parametrize("damage", [damage_cut, damage_header, damage_all, damage_longer, os.remove])
def test_a_damaged_copy_is_made_again(tmp_path: Path, folder: Path, damage) -> None:
    path = put(tmp_path / "a.txt", ROWS)
    first = load(path, ENGINE, folder).x.take(np.arange(4))  # a copy in memory: the file is about to change
    (copy,) = folder.glob("*" + cache.SUFFIX)
    good = copy.read_bytes()
    damage(copy)
    assert same(load(path, ENGINE, folder).x, first)
    assert copy.read_bytes() == good
    put(folder / "memo.json", "{not json")
    load(path, ENGINE, folder)


def test_a_failed_parse_leaves_nothing(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(UserError):
        load(put(tmp_path / "a.txt", ROWS + b"x\n"), ENGINE, folder)
    assert [p.name for p in folder.iterdir()] in ([], ["memo.json"])


def test_old_temporaries_of_dead_processes_go(tmp_path: Path, folder: Path) -> None:
    folder.mkdir()
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    old = put(folder / f".x{cache.SUFFIX}.{dead.stdout.strip()}.tmp", "x")
    mine = put(folder / f".x{cache.SUFFIX}.{os.getpid()}.tmp", "x")
    fresh = put(folder / f".y{cache.SUFFIX}.{dead.stdout.strip()}.tmp", "x")
    for path in (old, mine):
        os.utime(path, (1e9, 1e9))
    load(put(tmp_path / "a.txt", ROWS), ENGINE, folder)
    assert (old.exists(), mine.exists(), fresh.exists()) == (False, True, True)


def test_a_full_disk_is_said(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "a.txt", ROWS)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as m:
        m.setattr(cache.Writer, "append", refuse)
        with pytest.raises(ResourceError, match=r"the disk is full.*set data.cache"):
            load(path, ENGINE, folder)
    with monkeypatch.context() as m:
        m.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1, 1, 1))
        with pytest.raises(ResourceError, match=r"free, but the binary copy of .* takes"):
            load(path, ENGINE, folder)
    assert not list(folder.glob("*" + cache.SUFFIX)) and not list(folder.glob(".*"))


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    path = put(tmp_path / "a.txt", ROWS)
    with pytest.raises(UserError, match=r"cannot write the binary copy of .*Not a directory.*data.cache"):
        load(path, ENGINE, path / "cache")


def test_several_writers_at_once(tmp_path: Path, folder: Path) -> None:
    x, y = random_rows(2000)
    path = put(tmp_path / "a.txt", as_text(x, y))
    code = (
        "import sys, pathlib; from xcl.native import Engine; from xcl.dataset.load import load;"
        "d = load(sys.argv[1], Engine(1), pathlib.Path(sys.argv[2])); print(d.x.nnz, d.y.nnz)"
    )
    runs = [
        subprocess.Popen([sys.executable, "-c", code, str(path), str(folder)], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert [run.communicate()[0] for run in runs] == [f"{x.nnz} {y.nnz}\n"] * 4
    assert not list(folder.glob(".*"))


@pytest.mark.slow
def test_memory_is_bounded_by_the_block(tmp_path: Path, folder: Path) -> None:
    x, y = random_rows(3000)
    body = as_text(x, y).split(b"\n", 1)[1]
    path = tmp_path / "large.txt"
    with open(path, "wb") as file:
        for _ in range(-(-160_000_000 // len(body))):
            file.write(body)
    code = (
        "import sys, pathlib, resource; from xcl.native import Engine; from xcl.dataset.load import load;"
        "e = Engine(1); before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "d = load(sys.argv[1], e, pathlib.Path(sys.argv[2]));"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    out = subprocess.run([sys.executable, "-c", code, str(path), str(folder)], capture_output=True, text=True)
    assert int(out.stdout) < 80_000, out.stderr  # KiB, for 160 MB of text


def test_a_pipe_can_be_loaded(tmp_path: Path, folder: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    threading.Thread(target=lambda: pipe.write_bytes(gzip.compress(ROWS)), daemon=True).start()
    assert load(pipe, ENGINE, folder).ids == MODEL


# ---- archives


def test_npz_keeps_everything(tmp_path: Path, folder: Path) -> None:
    text = load(put(tmp_path / "a.txt", "3 9 6\n1,6 1:0.1 9:3.4e38\n\n 2:1e-45\n"), ENGINE, folder)
    assert text.ids == IdSpace(1, 1, 9, 6)
    write(tmp_path / "a.npz", text.x, text.y, (1, 1))
    back = load(tmp_path / "a.npz", ENGINE, folder)
    assert same(back.x, text.x) and same(back.y, text.y) and back.ids == text.ids
    assert back.stats.n_rows_without_labels == 2 and back.stats.max_feature == 9
    again = tmp_path / "again.npz"
    write(again, back.x, back.y, (1, 1))
    assert again.read_bytes() == (tmp_path / "a.npz").read_bytes()
    assert load(again, ENGINE, folder).checksum == back.checksum
    for block_x, block_y in RowStream(again, ENGINE, text.ids):
        assert same(block_x, text.x) and same(block_y, text.y)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_scipy_pairs(tmp_path: Path, folder: Path, kind: str) -> None:
    x, y = random_rows(30)
    sp.save_npz(tmp_path / "X.npz", x.to_scipy().astype(np.float64).asformat(kind))
    sp.save_npz(tmp_path / "Y.npz", y.to_scipy().astype(bool).asformat(kind))
    data = load(f"{tmp_path}/X.npz,Y.npz", ENGINE, folder)
    assert same(data.x, x) and same(data.y, y) and data.ids == IdSpace(0, 0, x.n_cols, y.n_cols)
    assert load(f"{tmp_path}/X.npz,{tmp_path}/Y.npz", ENGINE, folder).checksum == data.checksum


def test_wrong_pairs(tmp_path: Path, folder: Path) -> None:
    x, y = random_rows(30)
    sp.save_npz(tmp_path / "X.npz", x.to_scipy())
    sp.save_npz(tmp_path / "short.npz", y.to_scipy()[:9])
    sp.save_npz(tmp_path / "complex.npz", y.to_scipy().astype(complex))
    sp.save_npz(tmp_path / "nan.npz", x.to_scipy() * np.nan)
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    np.savez(tmp_path / "pickle.npz", a=np.array([{}], object))
    for name, message in {
        "X.npz": "holds one scipy matrix; expected .* a pair X.npz,Y.npz",
        "other.npz": "holds other arrays",
        "pickle.npz": "not a numpy archive that can be read",
        "X.npz,short.npz": "30 rows, but .*short.npz has 9",
        "X.npz,other.npz": "other.npz: not written by scipy.sparse.save_npz",
        "X.npz,nothing.npz": "nothing.npz: no such file",
        "X.npz,complex.npz": "values of type complex128",
        "nan.npz,X.npz": "nan.npz: matrix: a value is not a finite",
    }.items():
        with pytest.raises(UserError, match=message):
            load(tmp_path / name, ENGINE, folder)


BROKEN = {
    "ids are not ascending": {"x_indices": np.array([3, 0, 1], np.int32)},
    "ids from -1 to 3": {"x_indices": np.array([-1, 3, 1], np.int32)},
    "ids from 0 to 9": {"x_indices": np.array([0, 9, 1], np.int32)},
    "offsets of rows do not ascend": {"x_indptr": np.array([0, 3, 2, 3], np.int64)},
    "offsets of rows do not ascend from": {"x_indptr": np.array([0, 2, 3, 9], np.int64)},
    "2 values": {"x_values": np.ones(2, np.float32)},
    "not a finite": {"x_values": np.array([1, np.inf, 1], np.float32)},
    "must be int64, int32 and float32": {"x_indices": np.array([0, 3, 1], np.int64)},
    "one dimension": {"x_indptr": np.zeros((1, 1), np.int64)},
    "do not have 9 rows": {"shape": np.array([9, 9, 6])},
    "not an archive of rows": {"shape": np.array([9, 9])},
    "the parts": {"bases": np.array([0, 5])},
}


@pytest.mark.parametrize("message", BROKEN)
def test_archives_are_checked(tmp_path: Path, folder: Path, message: str) -> None:
    x = Csr(np.array([0, 2, 3, 3]), np.array([0, 3, 1], np.int32), np.ones(3, np.float32), 9)
    y = Csr(np.array([0, 1, 1, 2]), np.array([5, 0], np.int32), None, 6)
    npz.save(tmp_path / "a.npz", x, y, (0, 0))
    with np.load(tmp_path / "a.npz") as archive:
        arrays = {name: archive[name] for name in archive.files}
    np.savez(tmp_path / "b.npz", **{**arrays, **BROKEN[message]})
    assert load(tmp_path / "a.npz", ENGINE, folder).x.n_rows == 3
    with pytest.raises(UserError, match=message):
        load(tmp_path / "b.npz", ENGINE, folder)
    data = (tmp_path / "a.npz").read_bytes()
    for end in (10, len(data) // 2, len(data) - 1):
        with pytest.raises(UserError):
            load(put(tmp_path / "cut.npz", data[:end]), ENGINE, folder)


# ---- streams


def test_a_stream_gives_every_row_in_order(tmp_path: Path) -> None:
    x, y = random_rows(5000)
    path = put(tmp_path / "a.txt", as_text(x, y))
    stream = RowStream(path, ENGINE, IdSpace(0, 0, 100, 10))
    parts = [
        (a.to_scipy().tocsr(), b.n_rows, a.n_cols)
        for a, b in ((Csr(p.indptr.copy(), p.indices.copy(), p.values.copy(), 10**6), q) for p, q in stream)
    ]
    assert sum(n for _, n, _ in parts) == 5000
    assert abs(sp.vstack([part for part, _, _ in parts])[:, : x.n_cols] - x.to_scipy()).nnz == 0
    assert not stream.live and stream.notices == [] and stream.stats.n_rows == 5000


def test_a_stream_counts_from_the_models_base(tmp_path: Path) -> None:
    path = put(tmp_path / "a.txt", "1 1:1 9:1\n\n7 3:1 3:1\n")
    ((x, y),) = RowStream(path, ENGINE, IdSpace(1, 1, 4, 2))
    assert (x.indices.tolist(), x.n_cols, y.indices.tolist(), y.n_cols, x.n_rows) == ([0, 8, 2], 4, [0, 6], 2, 3)


def test_a_stream_keeps_the_place_of_malformed_rows(tmp_path: Path) -> None:
    path = put(tmp_path / "a.txt", "0 1:1\nbad\n1 1:1\n")
    stream = RowStream(path, ENGINE, MODEL, "blank")
    ((x, _),) = stream
    assert x.indptr.tolist() == [0, 1, 1, 2]
    assert stream.notices == [
        f"{path}: 1 malformed row skipped, first 2:1: 'bad': expected a label id (a whole number), "
        "or features as id:value"
    ]
    with pytest.raises(UserError, match=rf"^{path}:2:1: 'bad'"):
        list(RowStream(path, ENGINE, MODEL))


@pytest.mark.parametrize("method", ["txt", "zst"])
def test_a_pipe_is_answered_row_by_row(tmp_path: Path, method: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    sent: list[float] = []

    def send() -> None:
        with open(pipe, "wb", buffering=0) as file:
            packer = zstandard.ZstdCompressor().compressobj()
            for row in (b"0\n", b"2 0:1 1:1\n3", b" 2:1\n"):
                block = row
                if method == "zst":
                    block = packer.compress(row) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
                sent.append(time.monotonic())
                file.write(block)
                time.sleep(0.3)
            if method == "zst":
                file.write(packer.flush())

    threading.Thread(target=send, daemon=True).start()
    stream = RowStream(pipe, ENGINE, MODEL)
    assert stream.live
    got = [(x.n_rows, time.monotonic()) for x, _ in stream]
    assert [n for n, _ in got] == [1, 1, 1]
    assert all(0 <= answer - start < 0.25 for start, (_, answer) in zip(sent, got, strict=True))


# ---- writing


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32 - 1), st.sampled_from(["txt", "npz", "gz", "bz2", "zst"]), st.sampled_from([0, 1]))
def test_writing_and_loading_is_the_identity(tmp_path: Path, seed: int, suffix: str, base: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2**32, 40, np.uint32).view(np.float32)
    values = values[np.isfinite(values)]
    cuts = np.sort(rng.integers(0, len(values) + 1, 5))
    x = Csr(np.concatenate([[0], cuts, [len(values)]]), np.arange(len(values), dtype=np.int32), values, 99)
    y = Csr(np.arange(7) // 2, np.array([0, 3, 98], np.int32), None, 99)
    path = tmp_path / f"a.{suffix}"
    write(path, x, y, (base, base))
    back = load(path, ENGINE, tmp_path / "cache", IdSpace(base, base, 99, 99))
    assert same(back.y, y) and back.x.values.tobytes() == values.tobytes()
    assert same(back.x, x)
    first = path.read_bytes()
    write(path, back.x, back.y, (base, base))
    assert path.read_bytes() == first


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (0.1, "0.1"),
        (-0.25, "-0.25"),
        (1 / 3, "0.33333334"),
        (16777217, "16777216"),
        (1e9, "1e9"),
        (123456789, "123456790"),
        (0.0001, "0.0001"),
        (0.00001, "1e-5"),
        (1.5e-7, "1.5e-7"),
        (3.4028234663852886e38, "3.4028235e38"),
        (1.401298464324817e-45, "1e-45"),
        (1.17549435e-38, "1.1754944e-38"),
        (120.5, "120.5"),
    ],
)
def test_values_are_written_as_people_do(value: float, text: str) -> None:
    x = Csr(np.array([0, 1]), np.array([3], np.int32), np.array([value], np.float32), 4)
    y = Csr(np.array([0, 2]), np.array([1, 2], np.int32), None, 3)
    assert as_text(x, y) == f"1 4 3\n1,2 3:{text}\n".encode()


def test_large_matrices_are_written_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = random_rows(300)
    whole = as_text(x, y)
    monkeypatch.setattr("xcl.dataset.write._CHUNK_ENTRIES", 3)
    assert as_text(x, y) == whole


def test_take_copies_rows() -> None:
    x, _ = random_rows(40)
    rows = np.array([3, 3, 39, 0])
    assert abs(x.take(rows).to_scipy() - x.to_scipy()[rows]).nnz == 0
    assert x.take(rows[:0]).n_rows == 0


def test_concat_is_the_inverse_of_cutting() -> None:
    for m in random_rows(40):
        parts = [m.take(np.arange(a, b)) for a, b in ((0, 7), (7, 7), (7, 40))]
        assert same(Csr.concat(parts, m.n_cols), m)
    assert Csr.concat([], 5).n_rows == 0


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = put(tmp_path / "a", "x")
    refuse_existing(path, True)
    refuse_existing(tmp_path / "b", False)
    refuse_existing("-", False)
    for wrong, message in (
        (path, "exists already"),
        (tmp_path, "is a folder"),
        (tmp_path / "c" / "d", "no such folder"),
    ):
        with pytest.raises(UserError, match=message):
            refuse_existing(wrong, False)
    with pytest.raises(RuntimeError), open_text(tmp_path / "b") as out:
        out.write(b"half")
        raise RuntimeError
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a"]


def test_blocks_are_read_in_large_pieces(tmp_path: Path) -> None:
    path = put(tmp_path / "a", b"1\n" * (5 << 20))
    with open_file(path) as file:
        sizes = [len(block) for block in blocks(file, "a")]
    assert sum(sizes) == 10 << 20 and len(sizes) <= 4
    assert max(sizes) < 2 * read.BLOCK_BYTES


# ---- real sets

SAMPLE = Path(__file__).parents[1] / "datasets" / "finna-yso-sample"


def check_against_scikit_learn(path: Path, folder: Path) -> None:
    text = gzip.decompress(path.read_bytes())
    header, _, body = text.partition(b"\n")
    n_rows, n_features, n_labels = map(int, header.split())
    data = load(path, ENGINE, folder)
    assert (data.x.n_rows, data.x.n_cols, data.y.n_cols) == (n_rows, n_features, n_labels)
    assert (data.ids.feature_base, data.ids.label_base) == (0, 0)
    x, labels = load_svmlight_file(
        io.BytesIO(body), n_features=n_features, dtype=np.float64, multilabel=True, zero_based=True
    )
    assert np.array_equal(data.x.indptr, x.indptr) and np.array_equal(data.x.indices, x.indices)
    assert np.array_equal(data.x.values, x.data.astype(np.float32))
    assert np.array_equal(data.y.indices, np.concatenate([np.unique(np.array(row, int)) for row in labels]))


@pytest.mark.parametrize("name", ["train", "test"])
def test_the_sample_is_what_scikit_learn_reads(folder: Path, name: str) -> None:
    check_against_scikit_learn(SAMPLE / f"{name}.txt.gz", folder)


@pytest.mark.data
@pytest.mark.parametrize("name", ["bibtex", "delicious", "debian-depends", "wordnet-neigh"])
def test_real_sets_are_what_scikit_learn_reads(folder: Path, name: str) -> None:
    root = os.environ.get("XCL_DATA")
    if not root or not (Path(root) / name).is_dir():
        pytest.skip(f"set XCL_DATA to a folder that has {name}/train.txt.gz and test.txt.gz")
    for part in ("train", "test"):
        check_against_scikit_learn(Path(root) / name / f"{part}.txt.gz", folder)
