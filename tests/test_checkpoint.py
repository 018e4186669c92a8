# SPDX-License-Identifier: MIT
"""Model and checkpoint files whose sums are right and whose contents are not: one line that names the file."""

import json

import numpy as np
import pytest
from test_train import train

from xcl import checkpoint
from xcl.checkpoint.safetensors import File, write
from xcl.errors import UserError
from xcl.native import Engine
from xcl.rundir import Run

TABLES = ("sampler.kind=dwta", "sampler.tables=3", "sampler.active=4")
OPTIONS = [
    ("loss", "bcd"),
    ("loss", []),
    ("sampler", {}),
    ("scope", "bath"),
    ("hidden", 24),
    ("hidden", [24] * 9),
    ("hidden", ["24"]),
    ("hidden", [2**40]),
    ("n_labels", "12"),
    ("n_labels", -1),
    ("n_labels", 1e30),
    ("n_features", 2**31),
    ("normalize", "yes"),
    ("epsilon", None),
    ("seed", -1),
    ("colour", "red"),
]
CARD = [("format", 2), ("label_base", 2), ("feature_base", []), ("n_train_rows", "x"), ("options", []), ("colour", 1)]
STATE = [("step", -1), ("step", 1.5), ("position", "3"), ("best", "x"), ("sums", 3), ("sums", {"rows": None})]


@pytest.fixture
def run(work):
    train("train.epochs=1", *TABLES)
    return Run(work / "runs" / "r-1")


def rewrite(path, metadata=None, arrays=None):
    """The same file with other metadata and arrays, and sums that fit them."""
    file = File(path)
    found = {name: np.array(file.array(name)) for name in file.names}
    kept = {name: file.metadata[name] for name in ("xcl", "state") if name in file.metadata}
    write(path, {**found, **(arrays or {})}, {**kept, **(metadata or {})})


def refused(path, action):
    with pytest.raises(UserError) as e:
        action()
    assert path.name in str(e.value) and "\n" not in str(e.value)


def test_a_model_that_describes_itself_wrongly_is_refused(run):
    engine = Engine(1)
    good = json.loads(File(run.model).metadata["xcl"])
    bad = [{**good, "options": {**good["options"], key: value}} for key, value in OPTIONS]
    bad += [{**good, key: value} for key, value in CARD]
    bad += [{k: v for k, v in good.items() if k != "label_base"}, [], "x", 3, None]
    for card in bad:
        rewrite(run.model, {"xcl": json.dumps(card)})
        refused(run.model, lambda: checkpoint.load_model(run.model, engine))
    rewrite(run.model, {"xcl": json.dumps(good)})
    checkpoint.load_model(run.model, engine)


def test_a_checkpoint_with_an_impossible_state_is_refused(run):
    good = json.loads(File(run.checkpoint).metadata["state"])
    for state in [*({**good, key: value} for key, value in STATE), {**good, "colour": 1}, [], None]:
        rewrite(run.checkpoint, {"state": json.dumps(state)})
        refused(run.checkpoint, lambda: train("train.epochs=2", *TABLES, resume=True))


def test_a_checkpoint_with_impossible_hash_tables_is_refused(run):
    file = File(run.checkpoint)
    ids, offsets = np.array(file.array("index.ids")), np.array(file.array("index.offsets"))
    for name, array, at, value in [
        ("index.ids", ids, (0, 0), 2**31 - 1),
        ("index.ids", ids, (2, 1), -1),
        ("index.ids", ids, (1, 3), ids[1, 4]),
        ("index.offsets", offsets, (0, 0), -5),
        ("index.offsets", offsets, (1, 7), 2**30),
        ("index.offsets", offsets, (2, -1), 0),
    ]:
        bad = array.copy()
        bad[at] = value
        rewrite(run.checkpoint, arrays={name: bad})
        refused(run.checkpoint, lambda: train("train.epochs=2", *TABLES, resume=True))
        rewrite(run.checkpoint, arrays={name: array})
    train("train.epochs=2", *TABLES, resume=True)
