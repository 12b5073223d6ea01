"""Values out of annotation records, whose fields are named otherwise in each version."""

from __future__ import annotations

import re
from typing import Any

_LARGEST_ID = 1 << 60
_WHOLE = re.compile(r"-?\d{1,18}")

Corners = tuple[float, float, float, float]


def whole_number(value: Any) -> int | None:
    """Return an id or a size; a number in quotes is taken for one."""
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST_ID:
        return value
    return None


def image_of(record: Any) -> int | None:
    """Return a record's image: ``image_id``, in version 1.0 ``id``."""
    if not isinstance(record, dict):
        return None
    return whole_number(record["image_id"] if "image_id" in record else record.get("id"))


def object_of(record: dict[str, Any]) -> int | None:
    """Return a record's object: ``object_id``, in version 1.0 ``id``."""
    return whole_number(record["object_id"] if "object_id" in record else record.get("id"))


def names_of(record: dict[str, Any]) -> list[str]:
    """Return what a thing is called: ``names``, ``name``, in version 1.0 also ``object_names``."""
    for key in ("names", "name", "object_names"):
        if key in record:
            return texts(record[key])
    return []


def texts(value: Any) -> list[str]:
    """Return the strings of a list, or the one there is."""
    if isinstance(value, str):
        return [value]
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def box_of(record: dict[str, Any]) -> Corners | None:
    """Return x, y, width and height in pixels, whether they make sense or not."""
    try:
        sides = float(record["x"]), float(record["y"]), float(record["w"]), float(record["h"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return sides
