"""Texts to rows: the values of scikit-learn, the same ids in every file of a set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from xcl.dataset.load import load
from xcl.dataset.vectorize import Vectorized, labels_file, vectorize, words_file
from xcl.dataset.vectorizer import Vectorizer
from xcl.errors import UserError
from xcl.native import Engine

ENGINE = Engine(1)
TEXTS = ["A cat sat on the mat.", "the CAT's mat", "stocks fell; stocks rose", "", "on the on the on", "x1 y_2 Z"]


@pytest.mark.parametrize("min_rows", [1, 2])
def test_values_are_those_of_scikit_learn(min_rows: int) -> None:
    oracle = TfidfVectorizer(token_pattern=r"\w+", min_df=min_rows)
    expected = oracle.fit_transform(TEXTS)
    ours = Vectorizer.fit([TEXTS[:2], TEXTS[2:3], [], TEXTS[3:]], min_rows)
    columns = [oracle.vocabulary_[word] for word in ours.words]
    assert sorted(ours.words) == sorted(oracle.vocabulary_)
    x = ours.transform(TEXTS)
    assert np.allclose(x.to_scipy().toarray(), expected.toarray()[:, columns], atol=1e-7)
    assert all(np.all(np.diff(x.indices[a:b]) > 0) for a, b in zip(x.indptr, x.indptr[1:], strict=False))
    other = ["the new cat", "nothing known", "stocks"]
    got = ours.transform(other)
    assert np.allclose(got.to_scipy().toarray(), oracle.transform(other).toarray()[:, columns], atol=1e-7)
    assert got.indptr.tolist() == [0, *np.cumsum([len(set(t.split()) & set(ours.words)) for t in other])]


def test_words_are_ordered_by_frequency() -> None:
    fitted = Vectorizer.fit([["b a", "a c", "a b"]], 1)
    assert fitted.words == ["a", "b", "c"] and fitted.df.tolist() == [3, 2, 1]


def test_words_of_many_scripts_stay_whole() -> None:
    texts = ["ÄÖ straße", "ＣＡＴ ﬁsh", "हिन्दी भाषा", "ภาษาไทย", "cafe\u0301", "naïve—dash"]
    words = Vectorizer.fit([texts], 1).words
    assert sorted(words) == sorted(
        [
            "äö",
            "strasse",
            "cat",
            "fish",
            "हिन्दी",
            "भाषा",
            "ภาษาไทย".replace("\u0e33", "\u0e4d\u0e32"),
            "café",
            "naïve",
            "dash",
        ]
    )


def test_a_saved_word_list_is_the_same(tmp_path: Path) -> None:
    fitted = Vectorizer.fit([TEXTS], 1)
    fitted.save(tmp_path / "w.tsv")
    loaded = Vectorizer.load(tmp_path / "w.tsv")
    a, b = fitted.transform(TEXTS), loaded.transform(TEXTS)
    assert loaded.words == fitted.words and a.values.tobytes() == b.values.tobytes()
    loaded.save(tmp_path / "again.tsv")
    assert (tmp_path / "again.tsv").read_bytes() == (tmp_path / "w.tsv").read_bytes()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "the\t3\n",
        "# words and the texts they are in; texts: x\nthe\t3\n",
        "# words and the texts they are in; texts: 3\n",
        "# words and the texts they are in; texts: 3\nthe 3\n",
        "# words and the texts they are in; texts: 3\nthe\t4\n",
        "# words and the texts they are in; texts: 3\nthe\t1\nthe\t1\n",
        "# words and the texts they are in; texts: 3\nthe\t0\n",
    ],
)
def test_something_else_is_no_word_list(tmp_path: Path, text: str) -> None:
    (tmp_path / "w.tsv").write_text(text)
    with pytest.raises(UserError, match=r"w.tsv: (not a word list|damaged)"):
        Vectorizer.load(tmp_path / "w.tsv")


def test_no_word_is_frequent_enough() -> None:
    with pytest.raises(UserError, match="no word is in 2 of the 2 texts; lower --min-rows"):
        Vectorizer.fit([["a", "b"]], 2)


TRAIN = "a cat sat\tpets, animals\nstocks fell\tmoney\r\nthe cat fell\tpets,pets\nno label here\n\ttab only, animals\n"


def test_a_set_of_texts(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text(TRAIN)
    out = tmp_path / "train.txt.gz"
    done = vectorize(tmp_path / "train.tsv", out, ENGINE, min_rows=1)
    assert done == Vectorized(5, 9, 4, 0, 1, 1)
    assert labels_file(out).read_text() == "animals\npets\nmoney\ntab only\n"
    assert words_file(out) == tmp_path / "train.words.tsv"
    train = load(out, ENGINE, tmp_path / "cache")
    rows = np.split(train.y.indices, train.y.indptr[1:-1])
    assert [row.tolist() for row in rows] == [[0, 1], [2], [1], [], [0, 3]]

    (tmp_path / "test.tsv").write_text("cat stocks\tmoney,new\nunheard of\tanimals\n")
    done = vectorize(tmp_path / "test.tsv", tmp_path / "test.txt", ENGINE, like=out)
    assert done == Vectorized(2, 9, 5, 1, 0, 1)
    test = load(tmp_path / "test.txt", ENGINE, tmp_path / "cache", train.ids)
    assert test.y.indices.tolist() == [2, 4, 0]
    assert np.array_equal(
        test.x.to_scipy().toarray(),
        Vectorizer.load(words_file(out)).transform(["cat stocks", "unheard of"]).to_scipy().toarray(),
    )
    assert not (tmp_path / "test.words.tsv").exists()


def test_labels_of_a_libsvm_file(tmp_path: Path) -> None:
    (tmp_path / "raw.txt").write_text("a cat\tsat\na dog\n")
    (tmp_path / "ids.txt").write_text("2 1 9\n0,7 0:1\n\n")
    done = vectorize(tmp_path / "raw.txt", tmp_path / "out.txt", ENGINE, labels=tmp_path / "ids.txt", min_rows=1)
    assert done == Vectorized(2, 4, 9, 0, 1, 0)
    assert load(tmp_path / "out.txt", ENGINE, tmp_path / "cache").y.indices.tolist() == [0, 7]
    assert not labels_file(tmp_path / "out.txt").exists()
    (tmp_path / "raw.txt").write_text("one\ntwo\nthree\n")
    with pytest.raises(UserError, match=r"ids.txt has 2 rows, but .*raw.txt has 3 lines"):
        vectorize(tmp_path / "raw.txt", tmp_path / "x.txt", ENGINE, labels=tmp_path / "ids.txt", min_rows=1)
    assert not (tmp_path / "x.txt").exists()


def test_chunks_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.tsv").write_text(TRAIN * 3)
    for name, size in (("a", 20_000), ("b", 2)):
        monkeypatch.setattr("xcl.dataset.lines.CHUNK_LINES", size)
        vectorize(tmp_path / "train.tsv", tmp_path / f"{name}.txt", ENGINE)
    for ending in (".txt", ".words.tsv", ".labels.txt"):
        assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no word is in 1 of the 0 texts"),
        (b"a\nb\n", "no line has labels; expected `text<TAB>name,name`"),
        (b"a\tx\nb \xe4\ty\n", r"t.tsv:2:3: byte 0xe4 is not UTF-8 text"),
    ],
)
def test_wrong_texts(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "t.tsv").write_bytes(data)
    with pytest.raises(UserError, match=message):
        vectorize(tmp_path / "t.tsv", tmp_path / "out.txt", ENGINE, min_rows=1)
    assert [p.name for p in tmp_path.iterdir()] == ["t.tsv"]
