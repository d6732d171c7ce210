"""JSON of GoogleSQL in Python: what macros of DuckDB cannot express."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any


def json_check(x: str) -> str:
    try:
        return json.dumps(json.loads(x), ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        raise ValueError(
            f"Invalid input to PARSE_JSON: syntax error while parsing value: {x[:100]}"
        ) from None


def json_path(path: str) -> str:
    made = re.sub(r"""\[\s*(['"])((?:(?!\1).)*)\1\s*\]""", lambda match: '."' + match[2] + '"', path)
    return re.sub(
        r"\.([^\".\[\]]*[^A-Za-z0-9_\".\[\]][^\".\[\]]*)", lambda match: '."' + match[1] + '"', made
    )


def _steps(path: str) -> list[str | int]:
    made: list[str | int] = []
    for name, quoted, number in re.findall(r'\.([^".\[\]]+)|\."([^"]*)"|\[(\d+)\]', json_path(path)):
        made.append(int(number) if number else quoted or name)
    return made


def _plain_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain_numbers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain_numbers(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value


def _float_or_text(number: str) -> float | str:
    """A number that is no FLOAT64, such as a NUMERIC with many digits, is a text in JSON."""
    found = float(number)
    return found if Decimal(repr(found)) == Decimal(number) else number


def json_text(x: str, pretty: bool) -> str:
    value = _plain_numbers(json.loads(x, parse_float=_float_or_text))
    return (
        json.dumps(value, ensure_ascii=False, indent=2)
        if pretty
        else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    )


def json_object_of(keys: list[str], values: list[str]) -> str:
    return json.dumps(
        dict(zip(keys, map(json.loads, values), strict=True)), ensure_ascii=False, separators=(",", ":")
    )


def json_change(operation: str, x: str, path: str, value: str | None, flag: bool) -> str:
    document = json.loads(x)
    new = None if value is None else json.loads(value)
    holder: Any = {"$": document}
    key: Any = "$"
    for step in _steps(path):
        inner = holder[key]
        if inner is None and operation != "remove":
            inner = holder[key] = [] if isinstance(step, int) else {}
        if isinstance(step, int) and isinstance(inner, list):
            if operation == "insert" and step > len(inner):
                inner.extend([None] * (step - len(inner)))
            elif operation == "set" and step >= len(inner) and flag:
                inner.extend([None] * (step + 1 - len(inner)))
            elif step >= len(inner) and not (operation == "insert" and step == len(inner)):
                return x
        elif isinstance(step, str) and isinstance(inner, dict):
            if step not in inner:
                if operation == "remove" or (operation == "set" and not flag):
                    return x
                inner[step] = None
        else:
            return x
        holder, key = inner, step
    if operation == "set":
        holder[key] = new
    elif operation == "remove":
        del holder[key]
    elif operation == "append":
        target = holder[key]
        added = new if flag and isinstance(new, list) else [new]
        if isinstance(target, list):
            target.extend(added)
        elif target is None:
            holder[key] = list(added)
    else:  # insert
        added = new if flag and isinstance(new, list) else [new]
        if isinstance(holder, list):
            holder[key:key] = added
    root = document if path.strip() != "$" else (new if operation == "set" else document)
    return json.dumps(root, ensure_ascii=False, separators=(",", ":"))


def json_strip(x: str, path: str, arrays: bool, empty: bool) -> str:
    def stripped(value: Any) -> Any:
        if isinstance(value, dict):
            made = {key: stripped(each) for key, each in value.items()}
            kept = {key: each for key, each in made.items() if each is not None}
            return None if empty and not kept else kept
        if isinstance(value, list) and arrays:
            items = [stripped(each) for each in value]
            items = [each for each in items if each is not None]
            return None if empty and not items else items
        return value

    document: Any = {"$": json.loads(x)}
    holder, key = document, "$"
    for step in _steps(path):
        inner = holder[key]
        if (isinstance(inner, dict) and step in inner) or (
            isinstance(inner, list) and isinstance(step, int) and step < len(inner)
        ):
            holder, key = inner, step  # type: ignore[assignment]
        else:
            return x
    holder[key] = stripped(holder[key])
    return json.dumps(document["$"], ensure_ascii=False, separators=(",", ":"))


def json_key_paths(x: str, depth: int | None) -> list[str]:
    found: set[str] = set()

    def walk(value: Any, prefix: str, level: int) -> None:
        if isinstance(value, dict) and (depth is None or level < depth):
            for key, each in value.items():
                name = f"{prefix}.{key}" if prefix else key
                found.add(name)
                walk(each, name, level + 1)

    walk(json.loads(x), "", 0)
    return sorted(found)
