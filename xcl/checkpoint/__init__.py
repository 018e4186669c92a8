# SPDX-License-Identifier: MIT
"""Models and training state as safetensors files.

`model.safetensors` holds the weights and `label_counts` (training rows of each label, for propensities); its metadata
entry `xcl` is JSON with everything needed to predict anywhere: sizes, widths, loss, hash options, id bases.
`checkpoint.safetensors` holds all tensors of a model in training and, in the entry `state`, where it was.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from xcl.checkpoint.safetensors import File, write
from xcl.dataset.load import IdSpace
from xcl.errors import UserError, WorkError
from xcl.model import Model, ModelOptions, plan
from xcl.native import Engine

__all__ = ["Card", "File", "load_model", "read_state", "restore", "save_checkpoint", "save_model"]

FORMAT = 1
COUNTS = "label_counts"
_CHECK_ROWS = 4096

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Card:
    """What a model file says about itself. trained: free-form facts such as the epoch and its validation score."""

    options: ModelOptions
    feature_base: int
    label_base: int
    n_train_rows: int
    trained: dict[str, Any] = field(default_factory=dict)

    @property
    def ids(self) -> IdSpace:
        """What ids in files for this model mean."""
        return IdSpace(self.feature_base, self.label_base, self.options.n_features, self.options.n_labels)

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **dataclasses.asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> Card:
        """Raises: UserError, ValueError, TypeError, LookupError or OverflowError if the text is not a card."""
        value = dict(json.loads(text))
        if value.pop("format") != FORMAT:
            raise ValueError("written by another version of xcl")
        options = dict(value.pop("options"))
        options["hidden"] = tuple(options["hidden"])
        card = cls(options=ModelOptions(**options), **value)
        plan(card.options, 1, 1, 0.0, 0.0)  # the engine takes what it knows, and in its range, only
        if not {card.feature_base, card.label_base} <= {0, 1} or card.n_train_rows < 0:
            raise ValueError("ids count from 0 or 1, rows are not negative")
        return card


def save_model(path: Path, model: Model, card: Card, counts: Counts) -> None:
    """Write the weights. Raises: WorkError, leaving no file, if one is not a finite number."""
    arrays = {t.name: t.array for t in model.tensors() if t.role == "weight"}
    for name, array in arrays.items():
        for start in range(0, len(array), _CHECK_ROWS):
            if not np.isfinite(array[start : start + _CHECK_ROWS]).all():
                raise WorkError(f"{name} holds numbers that are not finite: training diverged, no model was written")
    write(path, {**arrays, COUNTS: counts}, {"xcl": card.to_json()})


def load_model(path: Path, engine: Engine, lsh: bool = False) -> tuple[Model, Card, Counts]:
    """Open a model for prediction; its weights stay in the memory-mapped file where they lie right.

    lsh: build the hash tables. Raises: UserError naming the file if it is damaged or not a model.
    """
    file = File(path)
    card = _card(file)
    if lsh and not card.options.uses_tables:
        raise UserError(
            f"{path}: trained with sampler.kind {card.options.sampler}, without hash tables: leave --lsh out"
        )
    file.verify()
    model = Model(engine, dataclasses.replace(card.options, trainable=False))
    for name, shape in _weight_shapes(card.options).items():
        array = file.array(name)
        if array.shape != shape or array.dtype != np.float32:
            raise UserError(f"{path}: {name} is {array.dtype} {array.shape}, not float32 {shape}: not written by xcl?")
        model.attach(name, array)
    if lsh:
        model.restore()
    counts = file.array(COUNTS)
    if counts.shape != (card.options.n_labels,) or counts.dtype != np.int64:
        raise UserError(f"{path}: {COUNTS} does not fit the {card.options.n_labels:,} labels: not written by xcl?")
    return model, card, counts


def save_checkpoint(path: Path, model: Model, card: Card, counts: Counts, state: dict[str, Any]) -> None:
    """Write everything that training needs to go on to the same bytes."""
    arrays = {t.name: t.array for t in model.tensors()}
    write(path, {**arrays, COUNTS: counts}, {"xcl": card.to_json(), "state": json.dumps(state)})


def read_state(path: Path) -> dict[str, Any]:
    """The state entry of a checkpoint, without its tensors. Raises: UserError."""
    file = File(path)
    try:
        state = json.loads(file.metadata["state"])
        if not isinstance(state, dict):
            raise TypeError
    except (KeyError, ValueError, TypeError, RecursionError):
        raise UserError(f"{path}: not a checkpoint of xcl") from None
    return state


def restore(path: Path, model: Model) -> None:
    """Overwrite a new model of the same options with a checkpoint's tensors. Raises: UserError if they do not fit."""
    file = File(path)
    file.verify()
    for tensor in model.tensors():
        array = file.array(tensor.name)
        if array.shape != tensor.array.shape or array.dtype != tensor.array.dtype:
            raise UserError(f"{path}: {tensor.name} has shape {array.shape}, not {tensor.array.shape}")
        np.copyto(tensor.array, array)
    try:
        model.restore()
    except UserError as e:
        raise UserError(f"{path}: {e}") from None


def _card(file: File) -> Card:
    if "xcl" not in file.metadata:
        raise UserError(f"{file.path}: a safetensors file, but not a model of xcl")
    try:
        return Card.from_json(file.metadata["xcl"])
    except (UserError, ValueError, TypeError, LookupError, OverflowError, RecursionError) as e:
        raise UserError(f"{file.path}: unreadable description of the model ({e})") from None


def _weight_shapes(options: ModelOptions) -> dict[str, tuple[int, int]]:
    widths = options.hidden
    shapes = {"input.weight": (options.n_features, widths[0]), "input.bias": (1, widths[0])}
    for layer in range(1, len(widths)):
        shapes[f"hidden.{layer}.weight"] = (widths[layer - 1], widths[layer])
        shapes[f"hidden.{layer}.bias"] = (1, widths[layer])
    return {**shapes, "output.weight": (options.n_labels, widths[-1]), "output.bias": (options.n_labels, 1)}
