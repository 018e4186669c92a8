# SPDX-License-Identifier: MIT
"""The safetensors reader and writer, with the format's own library as the judge."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from xcl.checkpoint.safetensors import File, write
from xcl.errors import UserError

DTYPES = [np.float32, np.float64, np.int32, np.int64, np.uint32, np.uint64, np.uint8]
arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=9))
)


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.text("abc.é/", min_size=1, max_size=6), arrays, max_size=5), st.text(max_size=9))
def test_library_reads_what_we_write_and_we_read_it_back(tmp_path_factory, tensors, note):
    path = tmp_path_factory.mktemp("st") / "a.safetensors"
    write(path, tensors, {"note": note})
    theirs = safetensors.numpy.load_file(path)
    ours = File(path)
    ours.verify()
    assert ours.metadata["note"] == note
    assert set(theirs) == set(ours.names) == set(tensors)
    for name, array in tensors.items():
        for got in (theirs[name], ours.array(name)):
            assert got.dtype == array.dtype and got.shape == array.shape
            assert got.tobytes() == array.tobytes()


def test_we_read_what_the_library_writes(tmp_path):
    tensors = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array([7], np.int64)}
    safetensors.numpy.save_file(tensors, tmp_path / "a")
    file = File(tmp_path / "a")
    file.verify()  # no sums in a foreign file: nothing to compare
    np.testing.assert_array_equal(file.array("w"), tensors["w"])


def test_padded_columns_are_not_written(tmp_path):
    padded = np.arange(32, dtype=np.float32).reshape(2, 16)
    write(tmp_path / "a", {"w": padded[:, :5]}, {})
    np.testing.assert_array_equal(File(tmp_path / "a").array("w"), padded[:, :5])
    assert os.path.getsize(tmp_path / "a") % 64 == 40  # 10 floats behind an aligned start


def test_arrays_of_whole_lines_start_at_a_multiple_of_64(tmp_path):
    tensors = {"bias": np.ones(5, np.float32), "w": np.ones((3, 16), np.float32), "c": np.ones(3, np.int64)}
    write(tmp_path / "a", tensors, {"odd": "x"})
    raw = (tmp_path / "a").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    assert (8 + length + header["w"]["data_offsets"][0]) % 64 == 0
    assert (8 + length + header["c"]["data_offsets"][0]) % 8 == 0


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("cut") / "model.safetensors"
    write(path, {"w": np.arange(40, dtype=np.float32).reshape(8, 5)}, {"xcl": "{}"})
    return path.read_bytes()


def refuses(path: Path) -> None:
    with pytest.raises(UserError) as e:
        File(path).verify()
    assert path.name in str(e.value) and "\n" not in str(e.value)


def test_every_cut_is_refused(tmp_path, whole):
    path = tmp_path / "model.safetensors"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        refuses(path)


def test_every_flipped_data_bit_is_noticed(tmp_path, whole):
    path = tmp_path / "model.safetensors"
    start = len(whole) - 160
    for at in range(start, len(whole), 7):
        damaged = bytearray(whole)
        damaged[at] ^= 16
        path.write_bytes(damaged)
        refuses(path)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=200))
def test_garbage_is_refused(tmp_path_factory, garbage):
    path = tmp_path_factory.mktemp("g") / "garbage.bin"
    path.write_bytes(garbage)
    refuses(path)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [1 << 62, 1 << 62], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [0, 1 << 62, 1 << 62], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]},
        {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]},
        {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]},
        {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": 1, "data_offsets": [0, 4]},
        {"shape": [1], "data_offsets": [0, 4]},
        [],
        None,
    ],
)
def test_impossible_entries_are_refused(tmp_path, entry):
    header = json.dumps({"w": entry}).encode()
    path = tmp_path / "bad.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    refuses(path)


@pytest.mark.parametrize("header", [b"[" * 100_000, b"[]", b'"a"', b"9" * 9999, b'{"__metadata__": {"a": 1}}', b"\xff"])
def test_impossible_headers_are_refused(tmp_path, header):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    refuses(path)


def test_a_length_beyond_the_file_allocates_nothing(tmp_path):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(b"\xff" * 8 + b"{}")
    refuses(path)


def test_missing_file_and_folder(tmp_path):
    for path in (tmp_path / "nosuch", tmp_path):
        refuses(path)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a"
    write(path, {"w": np.ones(3, np.float32)}, {})
    before = path.read_bytes()
    with pytest.raises(KeyError):
        write(path, {"w": np.ones(3, np.complex64)}, {})
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a"]


def test_every_flipped_bit_of_the_header_is_noticed(tmp_path, whole):
    """A changed digit in the metadata is as bad as one in an array: bases and counts stand there."""
    path = tmp_path / "model.safetensors"
    length = int.from_bytes(whole[:8], "little")
    kept = b'"header_crc32":'  # without this name a file counts as one of another program
    for at in range(8 + length):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 7
        path.write_bytes(damaged)
        if kept in damaged:
            refuses(path)
