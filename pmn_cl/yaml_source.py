"""Reads a YAML file into plain data and remembers where each part of it stands.

Plain YAML readers drop duplicate keys, take ``5e-4`` for text and ``no`` for False. This one
reads YAML 1.2, keeps every duplicate as a problem, and can point at any part by its path.
It knows nothing of what the data means.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from pmn_cl.errors import UserError

Loc = tuple[str | int, ...]  # the way to a part: keys and list positions


@dataclass(frozen=True)
class Problem:
    """One mistake: where it is and what is wrong with it."""

    loc: Loc
    message: str
    at_key: bool = False  # whether the key is meant, or its value


@dataclass
class YamlSource:
    """The data of a file, with the line and column of every key and value."""

    path: Path
    data: Any = None
    problems: list[Problem] = field(default_factory=list)
    _values: dict[Loc, tuple[int, int]] = field(default_factory=dict)
    _keys: dict[Loc, tuple[int, int]] = field(default_factory=dict)

    def describe(self, problem: Problem) -> str:
        """Return ``file:line:column: path: message``."""
        line, column = self._position(problem)
        path = _dotted(problem.loc)
        return f"{self.path}:{line}:{column}: {path}{': ' if path else ''}{problem.message}"

    def refuse(self, problems: list[Problem]) -> None:
        """Raise one error that lists all problems in the order of the file, if there are any."""
        problems = [*self.problems, *problems]
        if problems:
            unique = {self.describe(p): self._position(p) for p in problems}
            raise UserError("\n".join(sorted(unique, key=lambda text: unique[text])))

    def _position(self, problem: Problem) -> tuple[int, int]:
        """Return where the problem is, or the nearest part above it that is written down."""
        if problem.at_key and problem.loc in self._keys:
            return self._keys[problem.loc]
        loc = problem.loc
        while loc not in self._values and loc:
            loc = loc[:-1]
        return self._values.get(loc, (1, 1))


def read_yaml(path: Path) -> YamlSource:
    """Read a file; a file that is no YAML at all is refused at once."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}:1:1: not a text file ({error.reason}), expected YAML") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    reader = YAML(typ="safe", pure=True)
    try:
        root = reader.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise UserError(
            f"{path}:{line}:{column}: not valid YAML: {error.problem or error.context}"
        ) from None
    except YAMLError as error:
        raise UserError(f"{path}:1:1: not valid YAML: {error}") from None
    source = YamlSource(path)
    source.data = None if root is None else _read_node(reader, root, (), source, ())
    return source


def _read_node(
    reader: YAML, node: Node, loc: Loc, source: YamlSource, above: tuple[Node, ...]
) -> Any:
    """Turn a node into plain data and note where it and its parts stand."""
    source._values[loc] = (node.start_mark.line + 1, node.start_mark.column + 1)
    if node in above:
        source.problems.append(Problem(loc, "refers to itself, expected plain data"))
        return None
    above = (*above, node)
    if isinstance(node, SequenceNode):
        items = enumerate(node.value)
        return [_read_node(reader, item, (*loc, i), source, above) for i, item in items]
    if isinstance(node, MappingNode):
        return _read_mapping(reader, node, loc, source, above)
    assert isinstance(node, ScalarNode)  # YAML has no fourth kind
    return _read_scalar(reader, node, loc, source)


def _read_mapping(
    reader: YAML, node: MappingNode, loc: Loc, source: YamlSource, above: tuple[Node, ...]
) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = key_node.value if isinstance(key_node, ScalarNode) else "?"
        place = (*loc, key)
        position = (key_node.start_mark.line + 1, key_node.start_mark.column + 1)
        if key in mapping:
            first = source._keys[place][0]
            message = f"duplicate key {key!r}, first given in line {first}; expected it once"
            source._keys[place] = position  # point at the second
            source.problems.append(Problem(place, message, at_key=True))
        source._keys[place] = position
        mapping[key] = _read_node(reader, value_node, place, source, above)
    return mapping


def _read_scalar(reader: YAML, node: ScalarNode, loc: Loc, source: YamlSource) -> Any:
    try:
        return reader.constructor.construct_object(node)
    except (MarkedYAMLError, ValueError) as error:
        reason = getattr(error, "problem", None) or str(error)
        source.problems.append(
            Problem(loc, f"found {node.value!r}, which cannot be read: {reason}")
        )
        return None


def _dotted(loc: Loc) -> str:
    """Return for example ``tasks[2].calls``."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
