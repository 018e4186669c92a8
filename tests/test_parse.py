"""The native text parser: every block boundary and thread count gives the same rows, and every error its place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from xcl.dataset.text import Parser, TextStats
from xcl.errors import UserError
from xcl.native import Engine

ENGINES = {n: Engine(n) for n in (1, 2, 4)}
Row = tuple[list[int], list[tuple[int, float]]]


def parse(text: bytes | str, size: int = 1 << 20, threads: int = 1, **options) -> tuple[list[Row], TextStats]:
    """Rows as (labels, [(feature, value)]), fed in blocks of `size` bytes."""
    data = text.encode() if isinstance(text, str) else text
    parser = Parser(ENGINES[threads], "f", **options)
    rows: list[Row] = []
    for x, y in parser.parse(data[i : i + size] for i in range(0, len(data), size)):
        for i in range(x.n_rows):
            here = slice(x.indptr[i], x.indptr[i + 1])
            features = list(zip(x.indices[here].tolist(), x.values[here].tolist(), strict=True))
            rows.append((y.indices[y.indptr[i] : y.indptr[i + 1]].tolist(), features))
    return rows, parser.stats


def error(text: bytes | str, **options) -> str:
    with pytest.raises(UserError) as e:
        parse(text, **options)
    return str(e.value)


# ---- what a row may look like


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ("1,2 3:0.5", ([1, 2], [(3, 0.5)])),
        (" 3:0.5", ([], [(3, 0.5)])),
        ("\t3:0.5", ([], [(3, 0.5)])),
        ("3:0.5 4:1", ([], [(3, 0.5), (4, 1.0)])),
        ("7", ([7], [])),
        ("7 ", ([7], [])),
        ("", ([], [])),
        (" \t ", ([], [])),
        ("1 2:3\r", ([1], [(2, 3.0)])),
        ("\r", ([], [])),
        ("1 2:3 \r\r", ([1], [(2, 3.0)])),
        ("1\t2:3  \t 4:5 ", ([1], [(2, 3.0), (4, 5.0)])),
        ("1 2:3#x", ([1], [(2, 3.0)])),
        ("1 2:3 # 4:x", ([1], [(2, 3.0)])),
        ("1#", ([1], [])),
        (" # no row id", ([], [])),
        ("1 qid:7 2:3", ([1], [(2, 3.0)])),
        ("qid:7 2:3", ([], [(2, 3.0)])),
        ("+1,+2 +3:+1", ([1, 2], [(3, 1.0)])),
        ("007,08 0003:1", ([7, 8], [(3, 1.0)])),
        ("3,1,2,1 4:1", ([1, 2, 3], [(4, 1.0)])),
        ("0 9:1 4:2 9:4 4:8", ([0], [(4, 10.0), (9, 5.0)])),
        ("0 2147483647:1", ([0], [(2147483647, 1.0)])),
        ("2147483647 1:0", ([2147483647], [(1, 0.0)])),
    ],
)
def test_row(line: str, row: Row) -> None:
    for end in ("\n", ""):
        if line or end:
            assert parse(line + end)[0] == [row]
    assert parse(f"0 0:1\n{line}\n0 0:2\n")[0][1] == row


def test_empty_text_has_no_rows() -> None:
    assert parse("")[0] == []
    assert parse("# nothing\n")[0] == []
    assert parse("0 9 6\n")[0] == []


def test_lines_that_are_no_rows() -> None:
    text = "\ufeff# one\n#two\n2 5 6\n# three\n0 1:1\n\n# four\n\n"
    rows, stats = parse(text)
    assert rows == [([0], [(1, 1.0)]), ([], [])]  # the last blank line is beyond the rows declared
    assert stats.n_lines == 8
    assert (stats.declared_rows, stats.declared_features, stats.declared_labels) == (2, 5, 6)


def test_blank_lines_are_rows_without_a_header() -> None:
    assert parse("\n0 1:1\n\n\n")[0] == [([], []), ([0], [(1, 1.0)]), ([], []), ([], [])]


def test_counts() -> None:
    stats = parse("0,0,1 3:1 2:1 qid:4 3:1\n 1:1 1:1\n5\n\n")[1]
    assert (stats.n_rows, stats.n_features, stats.n_labels) == (4, 3, 3)
    assert (stats.n_unsorted_rows, stats.n_duplicate_features, stats.n_duplicate_labels, stats.n_qid) == (1, 2, 1, 1)
    assert (stats.n_rows_without_labels, stats.n_rows_without_features) == (2, 2)
    assert (stats.min_feature, stats.max_feature, stats.min_label, stats.max_label) == (1, 3, 0, 5)


def test_long_rows_are_sorted_and_summed_in_text_order() -> None:
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 300, 1000)
    values = rng.integers(1, 9, 1000) / 4
    rows, stats = parse("1 " + " ".join(f"{i}:{v}" for i, v in zip(ids, values, strict=True)))
    expected = np.bincount(ids, values)
    assert rows[0][1] == [(int(i), float(expected[i])) for i in np.unique(ids)]
    assert stats.n_duplicate_features == 1000 - len(np.unique(ids))


# ---- numbers

PLAIN = st.from_regex(r"[+-]?([0-9]{1,25}\.?[0-9]{0,25}|\.[0-9]{1,25})([eE][+-]?[0-9]{1,2})?", fullmatch=True)


@settings(max_examples=400, deadline=None)
@given(st.lists(PLAIN, min_size=1, max_size=20))
@example(["1e38", "3.4028235e38", "1e-45", "0.7e-45", "1e-400", "0e99999999999", "1e-99999999999999999999"])
@example(["16777217", "16777216.99999999999999999", "9007199254740993", "33554433.0000000000000000001"])
@example(["0." + "0" * 300 + "1e300", "1" + "0" * 300 + "e-300", "123456789" * 120 + "e-1075"])
@example(["1.000000059604644775390625", "1.0000000596046447753906251", "1.000000059604644775390624999999"])
def test_numbers_are_those_of_python(texts: list[str]) -> None:
    with np.errstate(over="ignore"):
        expected = [np.float32(float(text)) for text in texts]
    texts = [text for text, value in zip(texts, expected, strict=True) if np.isfinite(value)]
    rows, _ = parse("0 " + " ".join(f"{i}:{text}" for i, text in enumerate(texts)))
    got = [value for _, value in rows[0][1]]
    assert got == [float(value) for value in expected if np.isfinite(value)]


@pytest.mark.parametrize("value", ["3.5e38", "-1e39", "1e400", "9" * 400, "3.4028236e38"])
def test_numbers_beyond_float_are_refused(value: str) -> None:
    assert error(f"0 1:1\n0 1:{value}").endswith("is too large for a 32-bit float")
    assert error(f"0 1:1\n0 1:{value}").startswith("f:2:5: ")


def test_numbers_do_not_depend_on_the_locale() -> None:
    import locale

    before = locale.setlocale(locale.LC_NUMERIC)
    for name in ("de_DE.UTF-8", "fi_FI.UTF-8", "fr_FR.UTF-8"):
        try:
            locale.setlocale(locale.LC_NUMERIC, name)
        except locale.Error:
            continue
        try:
            number = "1.000000059604644775390625"  # between two floats: the slow path
            assert parse(f"0 1:{number}")[0][0][1] == [(1, float(np.float32(float(number))))]
        finally:
            locale.setlocale(locale.LC_NUMERIC, before)


# ---- errors

MALFORMED = [
    ("0 1:1\n1 1:nan", "2:5: 'nan': expected a finite decimal number"),
    ("0 1:-Infinity", "1:5: '-Infinity': expected a finite decimal number"),
    ("0 1:0x10", "1:5: '0x10': expected a decimal number, then a blank"),
    ("0 1:1,5", "1:5: '1,5': expected a decimal number, then a blank"),
    ("0 1:0.5.1", "1:5: '0.5.1': expected a decimal number, then a blank"),
    ("0 1:1e", "1:5: '1e': expected a finite decimal number"),
    ("0 1:.", "1:5: '.': expected a finite decimal number"),
    ("0 1:+-1", "1:5: '+-1': expected a finite decimal number"),
    ("0 1:2 3:4:5", "1:7: '3:4:5': a blank is missing between two features"),
    ("0 1: 2", "1:5: no value after the colon; features are id:value"),
    ("0 1:", "1:5: no value after the colon; features are id:value"),
    ("0 1:1\n0 4 5:1", "2:3: '4' has no value; features are id:value"),
    ("2 4\n0 0:1", "1:3: '4' has no value; features are id:value, and a header is three numbers: rows features labels"),
    ("2 4 5 6", "1:3: '4' has no value; features are id:value, and a header is three numbers: rows features labels"),
    (" 4 5:1", "1:2: '4' has no value; features are id:value, and a header is three numbers: rows features labels"),
    ("0 :1", "1:3: ':1': expected a feature as id:value"),
    ("0 a:1", "1:3: 'a:1': expected a feature as id:value"),
    ("0 1.5:1", "1:3: '1.5:1': expected a feature as id:value"),
    ("0 1e3:1", "1:3: '1e3:1': expected a feature as id:value"),
    ("0 qid:x 1:1", "1:3: 'qid:x': expected qid:number"),
    ("0 -3:1", "1:3: feature -3 is negative; features are ids from 0 up"),
    ("-1 3:1", "1:1: label -1 is negative; labels are ids from 0 up"),
    ("0 3000000000:1", "1:3: feature 3000000000 is above the limit of 2147483647; hash or renumber the features"),
    (
        "0 99999999999999999999999999999:1",
        "1:3: feature 999999999999999999999999 is above the limit of 2147483647; hash or renumber the features",
    ),
    ("2147483648 1:1", "1:1: label 2147483648 is above the limit of 2147483647; hash or renumber the labels"),
    ("3, 4 1:1", "1:3: a blank after a comma; labels are joined by commas without blanks"),
    ("3,\n", "1:3: a comma without a label after it"),
    ("3,,4 1:1", "1:3: ',4': expected a label id (a whole number), or features as id:value"),
    (",3 1:1", "1:1: ',3': expected a label id (a whole number), or features as id:value"),
    ("3 ,4 1:1", "1:3: ',4': expected a feature as id:value"),
    ("1,2:3", "1:3: '2:3': expected labels as whole numbers joined by commas, then a blank"),
    ("1,0.5,0.25", "1:3: '0.5,0.25': expected labels as whole numbers joined by commas, then a blank"),
    ("1.0 1:1", "1:1: '1.0': expected labels as whole numbers joined by commas, then a blank"),
    ("cat 1:1", "1:1: 'cat': expected a label id (a whole number), or features as id:value"),
    ("id;a;b\n1;2;3", "1:1: 'id;a;b': expected a label id (a whole number), or features as id:value"),
    (b"0 1:1\n\0\0\n", "2:1: byte 0x00: this is not libsvm text"),
    (b"0 1:1\n0 \0\n", "2:3: byte 0x00: this is not libsvm text"),
    (b"\x7fELF\n", "1:1: byte 0x7f: this is not libsvm text"),
    (b"\xff\xfe1\0", "1:1: byte 0xff: this is not libsvm text"),
    ("0 1:1\r0 2:1\n", "1:6: a carriage return within a line"),
    ("0 1:3e38 1:3e38", "1:1: the values of feature 1 sum to more than a 32-bit float"),
    ("\n5 9 6\n", "2:3: '9' has no value; features are id:value"),
    # headers
    ("5 4 2\n0 0:1\n", "1:1: the header declares 5 rows, but there are 1"),
    ("# a\n1099511627776 4 2\n0 0:1\n", "2:1: the header declares 1099511627776 rows, but there are 1"),
    ("1 4 2\n0 0:1\n\n\n0 1:1\n", "5:1: the header declares 1 rows, but there are more"),
    ("1 4 2\n0 4:1 5:1\n", "2:7: feature 5, but the header declares 4 features"),
    ("1 4 2\n3 0:1\n", "2:1: label 3, but the header declares 2 labels"),
    ("2 4 2\n0 4:1\n0 0:1\n", "2:3: feature 4, but the header declares 4 features, counted from 0"),
    ("2 4 2\n0 1:1\n2 1:1\n", "3:1: label 2, but the header declares 2 labels, counted from 0"),
    (
        "1 3000000000 2\n",
        "1:3: the header declares 3000000000 features; the limit is 2147483648; hash or renumber them",
    ),
    ("1 5 99999999999999999999\n", None),
]


@pytest.mark.parametrize(("text", "message"), MALFORMED)
def test_malformed_text_is_refused_at_its_place(text: bytes | str, message: str | None) -> None:
    data = text.encode() if isinstance(text, str) else text
    got = error(data)
    assert "\n" not in got
    assert got.isascii() and got.isprintable()
    assert message is None or got == f"f:{message}"
    for size in (1, 2, 3, 7):
        assert error(data, size=size) == got


def test_a_base_that_is_given_is_kept() -> None:
    assert error("0 1:1", bases=(-1, 1)) == "f:1:1: label 0, but the training file counts labels from 1"
    assert error("1 0:1", bases=(1, -1)) == "f:1:3: feature 0, but the training file counts features from 1"
    assert error("1 4 2\n1 4:1", bases=(0, 0)) == "f:2:3: feature 4, but the header declares 4 features, counted from 0"
    assert error("1 4 2\n3 4:1", bases=(1, 1)) == "f:2:1: label 3, but the header declares 2 labels, counted from 1"
    assert error("1 0 0\n 0:1", bases=(0, 0)) == "f:2:2: feature 0, but the header declares 0 features, counted from 0"
    assert parse("1 4 2\n2 4:1", bases=(1, 1))[0] == [([2], [(4, 1.0)])]


@pytest.mark.parametrize(
    ("text", "bases"),
    [
        ("0 0:1\n", (0, 0)),
        ("1 1:1\n", (1, 1)),
        ("1 0:1\n", (0, 1)),
        ("2 2:1\n", (0, 0)),
        ("2 1:1\n", (1, 0)),
        (" 1:1\n", (1, 0)),
        ("1\n", (0, 1)),
        ("1 9 8\n1 1:1\n", (0, 0)),
        ("1 9 8\n1 9:1\n", (1, 0)),
        ("1 9 8\n8 1:1\n", (0, 1)),
        ("", (0, 0)),
    ],
)
def test_what_ids_count_from(text: str, bases: tuple[int, int]) -> None:
    stats = parse(text)[1]
    assert (stats.feature_base, stats.label_base) == bases


# ---- skipping

BAD = "0 0:1\nx\n1 1:1 1:nan\n\n2 2:2 3:y\n2 -1:3\n3 3:1\n"


def test_skipped_rows_leave_no_trace() -> None:
    rows, stats = parse(BAD, on_error="skip")
    assert rows == [([0], [(0, 1.0)]), ([], []), ([3], [(3, 1.0)])]
    assert stats.n_malformed_rows == 4
    assert [text.split(" ")[0] for text in stats.malformed] == ["2:1:", "3:9:", "5:9:"]
    assert (stats.max_feature, stats.n_duplicate_features) == (3, 0)


def test_blanked_rows_keep_their_place() -> None:
    rows, stats = parse(BAD, on_error="blank")
    assert rows == [([0], [(0, 1.0)]), ([], []), ([], []), ([], []), ([], []), ([], []), ([3], [(3, 1.0)])]
    assert stats.n_malformed_rows == 4


def test_skipping_forgives_what_disagrees_with_the_header() -> None:
    rows, stats = parse("2 4 2\n0 0:1\n1 9:1\n1 1:1\n1 2:2\n", on_error="skip")
    assert rows == [([0], [(0, 1.0)]), ([1], [(1, 1.0)])]
    assert stats.malformed == (
        "3:3: feature 9, but the header declares 4 features",
        "5:1: the header declares 2 rows, but there are more",
    )
    assert parse("9 4 2\n0 0:1\n", on_error="skip")[0] == [([0], [(0, 1.0)])]


def test_skipping_leaves_a_contradictory_base_open() -> None:
    text = "2 4 2\n0 4:1\n0 0:1\n"
    assert parse(text, on_error="skip")[1].feature_base == -1
    rows, stats = parse(text, on_error="skip", bases=(0, -1))
    assert rows == [([0], [(0, 1.0)])]
    assert stats.n_malformed_rows == 1


# ---- properties

ID = st.integers(0, 2**31 - 1) | st.integers(0, 9)
VALUE = st.floats(width=32, allow_nan=False, allow_infinity=False)
ROWS = st.lists(
    st.tuples(st.lists(ID, max_size=5, unique=True), st.dictionaries(ID, VALUE, max_size=6)), min_size=1, max_size=12
)
BLANK = st.sampled_from([" ", "  ", "\t", " \t"])


def write(rows: list[tuple[list[int], dict[int, float]]], blank: str, end: str, header: bool, last: bool) -> str:
    """Rows as text, by rules independent of the code under test."""
    lines = [f"{len(rows)} {2**31} {2**31}"] if header else []
    for labels, features in rows:
        lines.append(",".join(map(str, labels)) + "".join(f"{blank}{i}:{v!r}" for i, v in features.items()))
    return end.join(lines) + (end if last else "")


@settings(max_examples=200, deadline=None)
@given(ROWS, BLANK, st.sampled_from(["\n", "\r\n", " \n", " # c\n"]), st.booleans(), st.booleans(), st.data())
def test_parser_inverts_a_writer(rows, blank, end, header, last, data) -> None:
    last = last or rows[-1] == ([], {})  # a last row with nothing needs its line end
    text = write(rows, blank, end, header, last)
    expected = [(sorted(labels), sorted(features.items())) for labels, features in rows]
    size = data.draw(st.integers(1, len(text) + 1))
    assert parse(text, size)[0] == expected


MESSY = (
    b"# head\r\n6 40 30\n1,2 3:0.5 1:1.25e-1 3:2\n\n 4:1 # x\n#\n7 qid:3 5:.5\r\n"
    b"9,9 39:16777217 38:0.1000000000000000055511151231257827\n3 1:1"
)


def test_every_block_boundary_gives_the_same() -> None:
    whole = parse(MESSY)
    assert len(whole[0]) == 6
    for cut in range(len(MESSY) + 1):
        parser = Parser(ENGINES[1], "f")
        rows = [x.n_rows for x, _ in parser.parse([MESSY[:cut], b"", MESSY[cut:]])]
        assert sum(rows) == 6
        assert parser.stats == whole[1]
    for size in range(1, len(MESSY)):
        assert parse(MESSY, size) == whole


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet=" \t\n\r#:,.+-eqid0123456789x\0", max_size=60), st.integers(1, 20))
@example("0 1:1\n0 1:2 1:", 3)
def test_any_text_is_parsed_or_refused_alike_in_any_blocks(text: str, size: int) -> None:
    def outcome(n: int):
        try:
            return parse(text, n)
        except UserError as e:
            return str(e)

    assert outcome(size) == outcome(1 << 20)


def many_rows(n: int, bad: dict[int, str] | None = None) -> bytes:
    rng = np.random.default_rng(3)
    lines = []
    for _ in range(n):
        labels = ",".join(map(str, rng.integers(0, 50, rng.integers(0, 4))))
        lines.append(
            labels + "".join(f" {f}:{v:.4f}" for f, v in zip(rng.integers(0, 99, 9), rng.random(9), strict=True))
        )
    for i, line in (bad or {}).items():
        lines[i] = line
    return "\n".join(lines).encode()


def test_any_number_of_threads_gives_the_same() -> None:
    text = many_rows(12_000, {500: "# comment", 7000: "", 9000: "x:1", 9500: "1 2:nan"})
    assert len(text) > 800_000
    expected = parse(text, 1 << 22, 1, on_error="skip")
    assert expected[1].n_malformed_rows == 2
    assert expected[1].malformed[0].startswith("9001:1:")
    for threads in (2, 4):
        for size in (1 << 22, 300_000):
            assert parse(text, size, threads, on_error="skip") == expected
            assert error(text, size=size, threads=threads) == error(text)


def test_header_is_checked_alike_by_any_number_of_threads() -> None:
    rows = many_rows(12_000)
    for threads in (1, 2, 4):
        assert error(b"11999 100 50\n" + rows, threads=threads) == (
            "f:12001:1: the header declares 11999 rows, but there are more"
        )
        assert len(parse(b"11000 100 50\n" + rows, threads=threads, on_error="skip")[0]) == 11_000
