# SPDX-License-Identifier: MIT
"""Score offsets that make up for labels being scored unequally often.

A label that is rarely scored meets few negatives, so its score comes out too high: by -log(q), where q is the chance
that a step scores it for a row that does not have it. Training adds -correction * log(q) to the score, and the label's
bias learns to do without. 1 would make up for all of it; less does better at P@1, see docs/benchmarks.md.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from xcl.model import ModelOptions


def score_offsets(
    options: ModelOptions, correction: float, counts: npt.NDArray[np.int64], n_rows: int, batch_size: int
) -> npt.NDArray[np.float32] | None:
    """What training adds to each label's score, or None for nothing.

    counts: (n_labels) training rows of each label, of n_rows. Candidates of hash tables are left out of q: nobody knows
    their chance beforehand.
    """
    if correction == 0 or options.sampler == "full":
        return None
    drawn = min(1.0, options.active / options.n_labels)
    missed = np.full(options.n_labels, 1 - drawn)
    if options.scope == "batch":  # a label of any other row of the batch is scored for all
        missed *= (1 - counts / n_rows) ** (batch_size - 1)
    chance = np.maximum(1 - missed, 1 / (1 + n_rows))
    return np.asarray(-correction * np.log(chance), dtype=np.float32)
