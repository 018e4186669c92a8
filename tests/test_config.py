# SPDX-License-Identifier: MIT
"""The strict config reader: values, places of mistakes, overrides, and text that reads back to the same config."""

import json
import math
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from xcl.config import load, resolved_yaml, starter_yaml
from xcl.config.schema import KEYS, SECTIONS, bounds, build, flatten
from xcl.config.write import json_schema
from xcl.errors import UserError


@pytest.fixture
def config(tmp_path):
    """Write a text as c.yaml and load it with overrides."""

    def read(text, *overrides):
        path = tmp_path / "c.yaml"
        path.write_text(text)
        return load(path, overrides)

    return read


def mistakes(config, text, *overrides):
    with pytest.raises(UserError) as e:
        config(text, *overrides)
    return [line.rpartition("/")[2] if "c.yaml" in line else line for line in str(e.value).splitlines()]


OK = "data: {train: t.txt}\n"


def test_two_lines_suffice_and_the_rest_is_default(config, tmp_path):
    loaded = config(OK)
    assert loaded.config.data.train == tmp_path / "t.txt"
    assert loaded.config.train.epochs == KEYS["train.epochs"].default
    assert loaded.origins["data.train"] == "file" and loaded.origins["train.epochs"] == "default"


@pytest.mark.parametrize("text", ["1e-3", "1E-3", "0.001", "+1e-3", ".001", "1.e-3"])
def test_number_forms_in_file_and_override(config, text):
    assert config(OK + f"optimizer: {{learning_rate: {text}}}").config.optimizer.learning_rate == 0.001
    assert config(OK, f"optimizer.learning_rate={text}").config.optimizer.learning_rate == 0.001


def test_whole_numbers_may_be_written_with_an_exponent_or_leading_zero(config):
    assert config(OK, "sampler.rehash_rows=1e6", "train.seed=012").config.sampler.rehash_rows == 1_000_000
    assert config(OK, "train.seed=012").config.train.seed == 12
    assert config(OK, f"train.seed={2**64 - 1}").config.train.seed == 2**64 - 1


def test_a_single_width_is_a_list_of_one(config):
    assert config(OK, "model.hidden=8").config.model.hidden == (8,)
    assert config(OK, "model.hidden=[8, 4]").config.model.hidden == (8, 4)


def test_command_line_beats_file_and_the_last_override_wins(config):
    loaded = config(OK + "train: {epochs: 9}", "train.epochs=2", "train.epochs=3")
    assert loaded.config.train.epochs == 3 and loaded.origins["train.epochs"] == "command line"


def test_null_restores_the_default(config):
    loaded = config(OK + "train: {epochs: 9}", "train.epochs=null")
    assert loaded.config.train.epochs == KEYS["train.epochs"].default and loaded.origins["train.epochs"] == "default"
    assert config(OK + "data2:\n".replace("data2", "model")).config.model == build({"data.train": Path("x")}).model


def test_a_section_can_be_overridden_at_once(config):
    assert config(OK, "train={epochs: 7, seed: 3}").config.train.epochs == 7


def test_paths_start_at_the_file_or_at_the_current_folder(config, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    loaded = config(OK, "data.test=e.txt", "data.validation=v.txt")
    assert loaded.config.data.train == tmp_path / "t.txt"
    assert loaded.config.data.test == tmp_path / "here" / "e.txt"
    assert loaded.config.data.validation == tmp_path / "here" / "v.txt"
    assert config(OK, "data.validation=0.1").config.data.validation == 0.1


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        (OK + "train:\n  epoch: 3\n", "c.yaml:3:3: train.epoch: unknown key", "did you mean epochs?"),
        (OK + "model:\n  batch_size: 8\n", "c.yaml:3:3: model.batch_size: unknown key", "section train"),
        (OK + "batch_size: 8\n", "c.yaml:2:1: batch_size: unknown key", "section train"),
        (OK + "model: {loss: bce}\n", "c.yaml:2:9: model.loss: unknown key", "top level"),
        (OK + "optimiser: {kind: adam}\n", "c.yaml:2:1: optimiser: unknown key", "did you mean optimizer?"),
        (OK + "train: {zzz: 1}\n", "c.yaml:2:9: train.zzz: unknown key", "allowed: epochs"),
        (OK + "<<: {a: 1}\n", "c.yaml:2:1: <<: unknown key", ""),
        (OK + "train: {epochs: 1, epochs: 2}\n", "c.yaml:2:20: train.epochs: given twice", "line 2"),
        (OK + "loss: BCE\n", "c.yaml:2:7: loss: 'BCE'", "bce, softmax"),
        (OK + "sampler: {kind: simhsh}\n", "c.yaml:2:17: sampler.kind: 'simhsh'", "did you mean simhash?"),
        (OK + "train: {epochs: 0}\n", "c.yaml:2:17: train.epochs: 0 is out of range", "[1, inf)"),
        (OK + "train: {epochs: 1.5}\n", "c.yaml:2:17: train.epochs: expected a whole number, got 1.5", ""),
        (OK + "train: {epochs: 1_000}\n", "c.yaml:2:17: train.epochs: expected a whole number", ""),
        (OK + "train: {epochs: '3'}\n", "c.yaml:2:17: train.epochs: expected a whole number", "quotes"),
        (OK + "train: {epochs: [3]}\n", "c.yaml:2:17: train.epochs: expected a whole number, got a list", ""),
        (OK + "optimizer: {learning_rate: .inf}\n", "c.yaml:2:28: optimizer.learning_rate: expected a number", ""),
        (OK + "optimizer: {learning_rate: 1e999}\n", "c.yaml:2:28: optimizer.learning_rate: 1e999", "finite"),
        (OK + "model: {output_bias: autom}\n", "c.yaml:2:22: model.output_bias: expected a number or auto", ""),
        (OK + "model: {hidden: [8, x]}\n", "c.yaml:2:17: model.hidden: expected a list of whole numbers", ""),
        (OK + "model: {hidden: []}\n", "c.yaml:2:9: model.hidden: 0 layers", "1 to 8"),
        (OK + "model: {hidden: [40], members: 2}\n", "c.yaml:2:23: model.members: do not cut 40", "multiples of 16"),
        (OK + "model: {members: 2}\nsampler: {scope: row}\n", "c.yaml:2:9: model.members: more than 1", "batch"),
        (OK + "sampler: {random_fill: 1}\n", "c.yaml:2:24: sampler.random_fill: expected true or false", ""),
        (OK + "train: 3\n", "c.yaml:2:8: train: expected a mapping", "epochs"),
        ("data: {train: [a]}\n", "c.yaml:1:15: data.train: expected a path, got a list", ""),
        ("data:\n  train:\n", "c.yaml:2:3: data.train: missing", ""),
        ("train: {epochs: 1}\n", "c.yaml: data.train: missing", ""),
        ("", "c.yaml: data.train: missing", ""),
        ("- a\n", "c.yaml:1:1: expected `key: value` lines", ""),
        (OK + "train: {patience: 2}\n", "c.yaml:2:9: train.patience: needs validation rows", ""),
        (OK + "a: &x 1\n", "c.yaml:2:4: anchors and aliases", ""),
        (OK + "a: *x\n", "c.yaml:2:4: anchors and aliases", ""),
        (OK + "a: !!python/object:os.system x\n", "c.yaml:2:4: tags", ""),
        (OK + "---\na: 1\n", "c.yaml:2:1: a second document", ""),
        (OK + "a: [[[[[[[[[[[[1]]]]]]]]]]]]\n", "c.yaml:2:", "nested too deeply"),
        (OK + "train:\n\tepochs: 1\n", "c.yaml:3:1: not YAML", "blanks, not tabs"),
        (OK + "a: [1\n", "c.yaml:3:1: not YAML", ""),
    ],
)
def test_mistakes_name_line_column_key_and_remedy(config, text, place, hint):
    lines = mistakes(config, text)
    assert any(line.startswith(place) and hint in line for line in lines), lines


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("trian.epochs=3", "command line: trian.epochs: unknown key (did you mean train.epochs?)"),
        ("train.epochs=x", "command line: train.epochs: expected a whole number, got 'x'"),
        ("train.epochs", "command line: train.epochs: expected KEY=VALUE, such as train.epochs=3"),
        ("train.epochs=[", "command line: train.epochs: not YAML"),
        ("train.epochs=*a", "command line: train.epochs: anchors and aliases"),
    ],
)
def test_overrides_are_held_to_the_same_schema(config, override, message):
    assert mistakes(config, OK, override)[0].startswith(message)


def test_all_mistakes_are_reported_at_once(config):
    lines = mistakes(config, "data: {tain: x}\ntrain: {epochs: 0, sed: 1}\n", "model.dropout=2")
    assert len(lines) == 5


@pytest.mark.parametrize("raw", [b"\xff\xfe\x00", b"a: \xe9\n", b"\x00" * 9, b"x" * (2 << 20)])
def test_what_is_no_text_is_refused_in_one_line(tmp_path, raw):
    path = tmp_path / "c.yaml"
    path.write_bytes(raw)
    with pytest.raises(UserError) as e:
        load(path)
    assert "c.yaml" in str(e.value) and "\n" not in str(e.value)


def test_missing_file_and_folder(tmp_path):
    for path in (tmp_path / "nosuch.yaml", tmp_path):
        with pytest.raises(UserError, match="xcl init"):
            load(path)


def values_of(key):
    """Any value that a key may have."""
    options = [st.sampled_from(key.words)] if key.words else []
    for kind in key.kinds:
        if kind is float:
            options.append(floats_in(key.interval))
        elif kind is int:
            low, high = bounds(key.interval)
            options.append(st.integers(int(low), int(min(high, 2**64 - 1))))
        elif kind is bool:
            options.append(st.booleans())
        elif kind is Path:
            options.append(names.map(lambda name: Path("/d") / name))
        elif kind is type(None):
            options.append(st.none())
        elif not key.words:
            options.append(st.lists(st.integers(1, 65536), min_size=1, max_size=8).map(tuple))
    return st.one_of(options)


names = st.text(st.characters(categories=["L", "N", "P", "S"], exclude_characters="/"), max_size=20).map("a".__add__)


def floats_in(interval):
    low, high = bounds(interval)
    return st.floats(
        low if math.isfinite(low) else -1e12,
        high if math.isfinite(high) else 1e12,
        exclude_min=interval[0] == "(" and math.isfinite(low),
        exclude_max=interval[-1] == ")" and math.isfinite(high),
    )


@settings(deadline=None, max_examples=80)
@given(st.fixed_dictionaries({k.path: values_of(k) for k in KEYS.values() if k.name not in ("patience", "members")}))
def test_the_resolved_text_reads_back_to_the_same_config(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("config") / "c.yaml"
    config = build(values)
    path.write_text(resolved_yaml_of(config))
    assert load(path).config == config


def resolved_yaml_of(config):
    from xcl.config import Loaded

    return resolved_yaml(Loaded(config, dict.fromkeys(KEYS, "file"), Path("c.yaml")))


def test_other_yaml_readers_see_the_same_values(config):
    loaded = config(OK, "optimizer.learning_rate=5E-7", "model.hidden=[8]")
    plain = yaml.safe_load(resolved_yaml(loaded))
    for path, value in flatten(loaded.config).items():
        section, _, name = path.rpartition(".")
        seen = plain[section][name] if section else plain[name]
        assert seen == (list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value)


def test_the_starter_holds_every_key_and_loads(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(starter_yaml({}))
    loaded = load(path)
    assert set(loaded.origins.values()) <= {"file", "default"}
    assert flatten(loaded.config) == flatten(build({"data.train": tmp_path / "train.txt"}))
    for key in KEYS.values():
        assert f"{key.name}: " in path.read_text() and key.doc in path.read_text()


def test_the_json_schema_names_every_key_and_its_bounds():
    schema = json.loads(json_schema())
    assert schema["additionalProperties"] is False
    for key in KEYS.values():
        home = schema["properties"][key.section]["properties"] if key.section else schema["properties"]
        assert home[key.name]["description"] == key.doc
    assert schema["properties"]["train"]["properties"]["epochs"]["minimum"] == 1
    assert schema["properties"]["model"]["properties"]["dropout"]["exclusiveMaximum"] == 1
    assert set(SECTIONS) <= set(schema["properties"])
