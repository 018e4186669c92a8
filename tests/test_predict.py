# SPDX-License-Identifier: MIT
"""Writing predictions: any number of labels a row in bounded memory."""

import io

import numpy as np

from xcl.dataset.csr import Csr
from xcl.model import Model, ModelOptions
from xcl.native import Engine
from xcl.predict import Style, predict


def test_long_lists_are_written_in_small_parts(monkeypatch):
    """A hundred thousand labels of a thousand rows would be gigabytes of text: few rows are taken at a time."""
    n_rows, n_labels = 50, 300
    model = Model(Engine(1), ModelOptions(4, n_labels, (8,)))
    x = Csr(np.arange(n_rows + 1), np.zeros(n_rows, np.int32), np.arange(n_rows, dtype=np.float32), 4)
    asked = []

    class Counting:
        options = model.options

        def predict(self, x, k, rows, lsh):
            asked.append(len(rows) * k)
            return model.predict(x, k, rows, lsh)

    def lines(k):
        out = io.StringIO()
        predict(Counting(), [x], k, False, Style("libsvm", 0, True), out, flush=False)
        return out.getvalue()

    for k in (1, n_labels, 10 * n_labels):
        monkeypatch.setattr("xcl.predict.CHUNK_SCORES", 1 << 30)
        whole = lines(k)
        monkeypatch.setattr("xcl.predict.CHUNK_SCORES", 1000)
        asked.clear()
        assert lines(k) == whole and len(whole.splitlines()) == n_rows
        assert max(asked) <= 1000 and sum(asked) == n_rows * min(k, n_labels)
