# SPDX-License-Identifier: MIT
"""Strict YAML: a file and KEY=VALUE overrides in, a Config out, every mistake reported at once with its place.

Plain data only: no tags, anchors, aliases or second document. Scalars are read by the type of their key, so that
1e-3 is a number (YAML libraries take it for text) and 012 is twelve.
"""

from __future__ import annotations

import difflib
import math
import re
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from xcl.config.schema import KEYS, SECTIONS, Config, Key, build, problems, within
from xcl.errors import UserError

MAX_BYTES = 1 << 20
MAX_DEPTH = 8
_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_BOOLS = {"true": True, "false": False}
_NULLS = ("", "~", "null")


@dataclass(frozen=True)
class Loaded:
    """A config with the origin of every key: default, file or command line."""

    config: Config
    origins: dict[str, str]
    path: Path


@dataclass(frozen=True)
class _Source:
    """Where nodes come from. base: the folder that relative paths start at."""

    name: str
    base: Path
    origin: str

    def at(self, node: yaml.Node | None) -> str:
        if node is None or self.origin != "file":
            return self.name
        return f"{self.name}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"


class _Wrong(Exception):
    """A value that is not what its key wants."""


def load(path: Path, overrides: Sequence[str] = ()) -> Loaded:
    """Read a config file and apply KEY=VALUE overrides, the last of equal keys wins.

    Raises: UserError with one line a mistake: `file:line:column: key: what` or `command line: key: what`.
    """
    reader = _Reader()
    source = _Source(str(path), path.absolute().parent, "file")
    reader.mapping(reader.compose(_read_text(path), source), source)
    for text in overrides:
        reader.override(text)
    return reader.finish(path)


def _read_text(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as e:
        raise UserError(f"{path}: {e.strerror}; `xcl init {path.name}` writes a starter config") from None
    if len(raw) > MAX_BYTES:
        raise UserError(f"{path}: larger than 1 MiB: is this a config?")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = raw[: e.start].count(b"\n") + 1
        raise UserError(f"{path}:{line}: not UTF-8 text: is this a config?") from None


class _Reader:
    """Collects values, origins and mistakes by dotted key."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origins: dict[str, str] = {}
        self.places: dict[str, str] = {}
        self.mistakes: list[str] = []
        self.failed: set[str] = set()

    def wrong(self, place: str, what: str) -> None:
        self.mistakes.append(f"{place}: {what}")

    def compose(self, text: str, source: _Source) -> yaml.Node | None:
        """The document's root node, after refusing what is more than plain data."""
        try:
            fault = _not_plain(text)
            if fault is None:
                return yaml.compose(text, Loader=yaml.SafeLoader)
            mark, what = fault
        except yaml.MarkedYAMLError as e:
            mark = e.problem_mark or e.context_mark
            what = f"not YAML: {e.problem or e.context}"
            if "\\t" in what:
                what += " (indent with blanks, not tabs)"
        except yaml.YAMLError as e:
            mark, what = None, f"not YAML: {' '.join(str(e).split())}"
        place = f":{mark.line + 1}:{mark.column + 1}" if mark is not None and source.origin == "file" else ""
        raise UserError(f"{source.name}{place}: {what}")

    def mapping(self, root: yaml.Node | None, source: _Source) -> None:
        if root is None or _is_null(root):
            return
        if not isinstance(root, yaml.MappingNode):
            self.wrong(source.at(root), "expected `key: value` lines, such as `data: {train: train.txt}`")
            return
        for key_node, name, value in self.items(root, source, ""):
            if name in SECTIONS:
                self.section(name, value, source)
            else:
                self.value(name, key_node, value, source)

    def section(self, section: str, node: yaml.Node, source: _Source) -> None:
        if _is_null(node):
            return
        if not isinstance(node, yaml.MappingNode):
            names = ", ".join(k.name for k in KEYS.values() if k.section == section)
            self.wrong(source.at(node), f"{section}: expected a mapping of keys ({names})")
            return
        for key_node, name, value in self.items(node, source, section + "."):
            self.value(section + "." + name, key_node, value, source)

    def items(self, node: yaml.MappingNode, source: _Source, prefix: str) -> Iterator[tuple[yaml.Node, str, yaml.Node]]:
        """Key node, key and value of each entry; a key given twice is a mistake."""
        seen: dict[str, int] = {}
        for key_node, value in node.value:
            name = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
            line = key_node.start_mark.line + 1
            if name in seen:
                self.wrong(source.at(key_node), f"{prefix}{name}: given twice (first in line {seen[name]})")
            else:
                seen[name] = line
                yield key_node, name, value

    def value(self, path: str, key_node: yaml.Node | None, node: yaml.Node, source: _Source) -> None:
        key = KEYS.get(path)
        if key is None:
            self.wrong(source.at(key_node), f"{path}: unknown key ({_nearest_key(path)})")
            return
        self.places[path] = source.at(key_node)
        if _is_null(node):  # back to the default
            self.values.pop(path, None)
            self.origins.pop(path, None)
            return
        try:
            self.values[path] = _convert(key, node, source.base)
            self.origins[path] = source.origin
        except _Wrong as e:
            self.failed.add(path)
            self.wrong(source.at(node), f"{path}: {e}")

    def override(self, text: str) -> None:
        path, equals, value = text.partition("=")
        source = _Source("command line", Path.cwd(), "command line")
        if not equals:
            self.wrong("command line", f"{text}: expected KEY=VALUE, such as train.epochs=3")
            return
        path = path.strip()
        node = self.compose(value, _Source(f"command line: {path}", source.base, source.origin))
        node = node or yaml.ScalarNode("tag:yaml.org,2002:null", "")
        if path in SECTIONS:
            self.section(path, node, source)
        else:
            self.value(path, None, node, source)

    def finish(self, path: Path) -> Loaded:
        if "data.train" not in self.values and "data.train" not in self.failed:
            place = self.places.get("data.train", str(path))
            self.wrong(place, "data.train: missing: name the file of training rows")
        if not self.mistakes:
            config = build(self.values)
            for key, what in problems(config):
                self.wrong(self.places.get(key, str(path)), f"{key}: {what}")
        if self.mistakes:
            raise UserError("\n".join(self.mistakes))
        return Loaded(config, {k: self.origins.get(k, "default") for k in KEYS}, path)


def _not_plain(text: str) -> tuple[Any, str] | None:
    """The first thing in a YAML text that is not plain data, or None."""
    depth = documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        what = None
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            what = "a second document: a config is one document" if documents > 1 else None
        elif isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            what = "anchors and aliases are not allowed: write the value out"
        elif getattr(event, "tag", None):
            what = "tags are not allowed: write plain values"
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            what = "nested too deeply" if depth > MAX_DEPTH else None
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if what:
            return event.start_mark, what
    return None


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and not node.style and node.value.lower() in _NULLS


def _nearest_key(path: str) -> str:
    """A hint at the key that was meant."""
    section, _, name = path.rpartition(".")
    siblings = [k.name for k in KEYS.values() if k.section == section] + ([] if section else list(SECTIONS))
    near = difflib.get_close_matches(name, siblings, 1) if siblings else difflib.get_close_matches(path, KEYS, 1)
    if near:
        return f"did you mean {near[0]}?"
    homes = [k.section for k in KEYS.values() if k.name == name]
    if homes:
        return f"it belongs in section {homes[0]}" if homes[0] else "it belongs at the top level"
    return "allowed: " + ", ".join(siblings or SECTIONS)


def _convert(key: Key, node: yaml.Node, base: Path) -> Any:
    """The value of a node by the type of its key. Raises: _Wrong."""
    if any(typing.get_origin(kind) is tuple for kind in key.kinds):
        items = node.value if isinstance(node, yaml.SequenceNode) else [node]
        return tuple(_number(item, int, key) for item in items)
    if not isinstance(node, yaml.ScalarNode):
        raise _Wrong(f"expected {key.wants}, got a {'list' if isinstance(node, yaml.SequenceNode) else 'mapping'}")
    if node.value in key.words:
        return node.value
    for kind in (int, float):
        if kind in key.kinds and (Path not in key.kinds or _FLOAT.fullmatch(node.value)):
            return _number(node, kind, key)
    if bool in key.kinds:
        if node.style or node.value.lower() not in _BOOLS:
            raise _Wrong(f"expected true or false, got {node.value!r}")
        return _BOOLS[node.value.lower()]
    if key.words:
        near = difflib.get_close_matches(node.value, key.words, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise _Wrong(f"{node.value!r} is not one of {', '.join(key.words)}{hint}")
    if not node.value.strip() or "\0" in node.value:
        raise _Wrong("expected the path of a file, got nothing")
    return base / Path(node.value).expanduser()


def _number(node: yaml.Node, kind: type, key: Key) -> int | float:
    """An int or float within the key's interval. Raises: _Wrong."""
    if not isinstance(node, yaml.ScalarNode):
        raise _Wrong(f"expected {key.wants}, got a list or mapping within")
    text = node.value
    if node.style or len(text) > 400 or not _FLOAT.fullmatch(text):
        raise _Wrong(f"expected {key.wants}, got {text[:40]!r}{' in quotes' if node.style else ''}")
    value: int | float = float(text)
    if not math.isfinite(value):
        raise _Wrong(f"{text} is not a finite number")
    if kind is int:
        if not float(text).is_integer():
            raise _Wrong(f"expected {key.wants}, got {text}")
        value = int(text) if _INT.fullmatch(text) else int(value)
    if not within(value, key.interval):
        raise _Wrong(f"{text} is out of range (allowed: {key.interval})")
    return value
