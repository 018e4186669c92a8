# SPDX-License-Identifier: MIT
"""A config as text: resolved YAML with the origin of each value, a commented starter, a JSON schema for editors."""

from __future__ import annotations

import json
import math
import typing
from collections.abc import Callable
from dataclasses import MISSING
from pathlib import Path
from typing import Any, Literal

from xcl.config.read import Loaded
from xcl.config.schema import KEYS, SECTIONS, Key, bounds, flatten

_JSON_TYPES = {int: "integer", float: "number", bool: "boolean", str: "string", Path: "string", type(None): "null"}
_WIDTH = 40


def scalar(value: Any) -> str:
    """A value as YAML that `read` reads back to the same value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(scalar(v) for v in value) + "]"
    if isinstance(value, float):
        text = repr(value)
        return text.replace("e", ".0e") if "e" in text and "." not in text else text  # 1.0e-08: a number for everybody
    if isinstance(value, int):
        return str(value)
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if _needs_quotes(text) else text


def _needs_quotes(text: str) -> bool:
    safe = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-@")
    return not text or not set(text) <= safe or not (text[0].isalpha() or text[0] in "/.")


def resolved_yaml(loaded: Loaded) -> str:
    """All keys with the values in use and where each comes from; reads back to the same config anywhere."""
    values = flatten(loaded.config)
    return _document(lambda k: values[k.path], lambda k: loaded.origins[k.path])


def starter_yaml(values: dict[str, Any]) -> str:
    """All keys with their defaults and one line of help each. values: dotted keys to set instead."""

    def value(key: Key) -> Any:
        return values.get(key.path, "train.txt" if key.default is MISSING else key.default)

    def help_line(key: Key) -> str:
        return key.doc + (f" ({', '.join(key.words)})" if len(key.words) > 1 else "")

    return _document(value, help_line)


def _document(value: Callable[[Key], Any], comment: Callable[[Key], str]) -> str:
    lines = []
    section = ""
    for key in KEYS.values():
        if key.section != section and key.section:
            lines.append(f"{key.section}:")
        section = key.section
        line = f"{'  ' if section else ''}{key.name}: {scalar(value(key))}"
        lines.append(f"{line:<{_WIDTH}} # {comment(key)}")
    return "\n".join(lines) + "\n"


def json_schema() -> str:
    """The JSON schema of a config file, for completion and checks in an editor."""
    top: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "xcl config",
        "type": "object",
        "required": ["data"],
        "additionalProperties": False,
        "properties": {},
    }
    for section, cls in SECTIONS.items():
        closed = {"additionalProperties": False, "properties": {}}
        top["properties"][section] = {"type": "object", "description": cls.__doc__, **closed}
    top["properties"]["data"]["required"] = ["train"]
    for key in KEYS.values():
        home = top["properties"][key.section]["properties"] if key.section else top["properties"]
        home[key.name] = _key_schema(key)
    return json.dumps(top, indent=2) + "\n"


def _key_schema(key: Key) -> dict[str, Any]:
    options = [_kind_schema(kind, key.interval) for kind in key.kinds]
    out: dict[str, Any] = {"description": key.doc}
    out.update(options[0] if len(options) == 1 else {"anyOf": options})
    if key.default is not MISSING:
        out["default"] = list(key.default) if isinstance(key.default, tuple) else key.default
    return out


def _kind_schema(kind: Any, interval: str) -> dict[str, Any]:
    if typing.get_origin(kind) is Literal:
        return {"enum": list(typing.get_args(kind))}
    if typing.get_origin(kind) is tuple:
        return {"type": "array", "items": _kind_schema(int, interval), "minItems": 1, "maxItems": 8}
    out: dict[str, Any] = {"type": _JSON_TYPES[kind]}
    if kind in (int, float) and interval:
        low, high = bounds(interval)
        if math.isfinite(low):
            out["minimum" if interval[0] == "[" else "exclusiveMinimum"] = low
        if math.isfinite(high):
            out["maximum" if interval[-1] == "]" else "exclusiveMaximum"] = high
    return out
