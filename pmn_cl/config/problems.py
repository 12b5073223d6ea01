"""Pydantic's findings about a YAML file, in our words and at their place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from pmn_cl.config.yaml_source import Loc, Problem, shorten
from pmn_cl.errors import did_you_mean

_EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "string_unicode": "text that UTF-8 can write",
    "finite_number": "a finite number",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "string_too_short": "some text",
    "too_short": "at least one entry",
}
_NAMES = {"world": "the name of a world", "strategies": "the name of a strategy"}


def problems_of(
    error: ValidationError, model: type[BaseModel], above: Loc, also: Sequence[str] = ()
) -> list[Problem]:
    """Put pydantic's findings into our words; ``also`` are keys beside those of the model."""
    problems = []
    for item in error.errors():
        loc: Loc = tuple(item["loc"])
        kind, value = item["type"], item["input"]
        if kind == "extra_forbidden":
            known = list(_fields_at(model, loc[:-1]))
            expected = f"one of {', '.join(known)}" if known else "none"
            near = did_you_mean(str(loc[-1]), [*known, *also])
            message = f"unknown key {loc[-1]!r}, expected {expected}{near}"
        elif kind == "missing":
            message = (
                f"missing, expected {_NAMES.get(str(loc[0]), 'a value') if loc[1:] else 'a value'}"
            )
        elif kind in ("value_error", "assertion_error"):  # a world's own check, in its own words
            message = str(item["ctx"]["error"])
        else:
            expected = _EXPECTED.get(kind) or _limits(model, loc)
            if loc[-1:] == ("name",) and str(loc[0]) in _NAMES:
                expected = _NAMES[str(loc[0])]
            if not above and expected == "a mapping":  # of the stream itself: a name will do
                expected = "a name or a mapping"
            expected = expected or item["msg"].removeprefix("Input should be ")
            message = f"found {shown(value)}, expected {expected}"
        problems.append(Problem((*above, *loc), message, at_key=kind == "extra_forbidden"))
    return problems


def _limits(model: type[BaseModel], loc: Loc) -> str:
    """Return for example ``a number from 1 to 100 (percent)``, as the field itself says."""
    limits = {}
    field = _fields_at(model, loc[:-1]).get(str(loc[-1])) if loc else None
    for constraint in field.metadata if field else ():
        for end in ("ge", "le"):
            if hasattr(constraint, end):
                limits[end] = getattr(constraint, end)
    if "ge" in limits and "le" in limits:
        unit = f" ({_unit(field)})" if _unit(field) else ""
        return f"a number from {limits['ge']} to {limits['le']}{unit}"
    return f"a number of at least {limits['ge']}" if "ge" in limits else ""


def _unit(field: FieldInfo | None) -> str:
    extra = field.json_schema_extra if field else None
    return str(extra.get("unit", "")) if isinstance(extra, dict) else ""


def _fields_at(model: type[BaseModel], loc: Loc) -> dict[str, Any]:
    """Return the fields of the model that a path leads to; none where it leads to no model."""
    fields = model.model_fields
    in_mapping = False  # from names of the user's to models: the next part is such a name
    for part in loc:
        if isinstance(part, str) and in_mapping:
            in_mapping = False
        elif isinstance(part, str):
            annotation = fields[part].annotation if part in fields else None
            models = [a for a in (annotation, *get_args(annotation)) if _is_model(a)]
            fields = models[0].model_fields if models else {}
            in_mapping = get_origin(annotation) is dict
    return fields


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type(BaseModel))


def shown(value: Any) -> str:
    """Return a value as the user wrote it, with its kind, cut to a readable length."""
    kinds = {str: "text", bool: "true/false", int: "a whole number", float: "a number"}
    kinds |= {list: "a list", dict: "a mapping", type(None): "nothing"}
    text = str(value).lower() if isinstance(value, bool) else shorten(repr(value))
    return "nothing" if value is None else f"{text} ({kinds.get(type(value), 'a value')})"
