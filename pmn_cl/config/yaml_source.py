"""Reads a YAML file into plain data and remembers where each part of it stands.

Plain YAML readers drop duplicate keys, take ``5e-4`` for text and ``no`` for False. This one
reads YAML 1.2 without dates, tags and merge keys, keeps every duplicate as a problem, and can
point at any part by its path. It knows nothing of what the data means.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from pmn_cl.errors import UserError

Loc = tuple[str | int, ...]  # the way to a part: keys and list positions
Position = tuple[int, int]  # line and column, from 1

_MOST_PARTS = 100_000  # aliases of aliases could stand for more than fits in memory
_PLAIN_TAGS = {
    f"tag:yaml.org,2002:{kind}"
    for kind in ("map", "seq", "str", "int", "float", "bool", "null", "timestamp", "merge")
}


@dataclass(frozen=True)
class Problem:
    """One mistake: where it is and what is wrong with it."""

    loc: Loc
    message: str
    at_key: bool = False  # whether the key is meant, or its value
    position: Position | None = None  # where the path alone does not say


@dataclass
class YamlSource:
    """The data of a file, with the line and column of every key and value."""

    path: Path
    data: Any = None
    problems: list[Problem] = field(default_factory=list)
    _values: dict[Loc, Position] = field(default_factory=dict)
    _keys: dict[Loc, Position] = field(default_factory=dict)

    def describe(self, problem: Problem) -> str:
        """Return ``file:line:column: path: message``."""
        line, column = self._position(problem)
        path = _dotted(problem.loc)
        return f"{self.path}:{line}:{column}: {path}{': ' if path else ''}{problem.message}"

    def refuse(self, problems: list[Problem]) -> None:
        """Raise one error that lists all problems in the order of the file, if there are any."""
        reported: set[Loc] = set()  # a value that is wrong in one way is often wrong in another too
        lines: dict[str, Position] = {}
        for problem in [*self.problems, *problems]:
            if problem.at_key or problem.loc not in reported:
                lines[self.describe(problem)] = self._position(problem)
            if not problem.at_key:
                reported.add(problem.loc)
        if lines:
            raise UserError("\n".join(sorted(lines, key=lambda line: lines[line])))

    def _position(self, problem: Problem) -> Position:
        """Return where the problem is, or the nearest part above it that is written down."""
        if problem.position is not None:
            return problem.position
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
    source = YamlSource(path)
    try:
        root = reader.compose(text)
        source.data = None if root is None else _read_node(reader, root, (), source, ())
    except RecursionError:
        raise UserError(f"{path}:1:1: nested too deeply, expected a few levels") from None
    except YAMLError as error:
        (line, column), reason = _explain(error, text)
        raise UserError(f"{path}:{line}:{column}: not valid YAML: {reason}") from None
    return source


def _explain(error: YAMLError, text: str) -> tuple[Position, str]:
    """Return where a file stops being YAML, and why."""
    if isinstance(error, ReaderError):
        before = text[: error.position]
        position = before.count("\n") + 1, error.position - before.rfind("\n")
        return position, f"the character {text[error.position]!r} is not allowed"
    if not isinstance(error, MarkedYAMLError):
        return (1, 1), str(error)
    mark, begin = error.problem_mark or error.context_mark, error.context_mark
    context = error.context
    if context and begin and begin is not mark and begin.line != mark.line:
        context = f"{context} from line {begin.line + 1}"
    reason = ", ".join(part for part in (context, error.problem) if part)
    return (mark.line + 1, mark.column + 1) if mark else (1, 1), reason


def _read_node(
    reader: YAML, node: Node, loc: Loc, source: YamlSource, above: tuple[Node, ...]
) -> Any:
    """Turn a node into plain data and note where it and its parts stand."""
    source._values.setdefault(loc, _start(node))
    if len(source._values) > _MOST_PARTS:
        raise UserError(f"{source.path}:1:1: more than {_MOST_PARTS:,} parts, expected fewer")
    if node in above:
        source.problems.append(Problem(loc, "refers to itself, expected plain data"))
        return None
    if node.tag not in _PLAIN_TAGS:
        source.problems.append(Problem(loc, f"has the tag {node.tag!r}, expected plain data"))
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
        position = _start(key_node)
        if not isinstance(key_node, ScalarNode):
            message = "found a list or a mapping as a key, expected text"
            source.problems.append(Problem(loc, message, at_key=True, position=position))
            continue
        key: str = key_node.value
        place = (*loc, key)
        if key in mapping:
            first = source._keys[place][0]
            message = f"duplicate key {key!r}, first given in line {first}; expected it once"
            source.problems.append(Problem(place, message, at_key=True, position=position))
            continue
        source._keys[place] = position
        if value_node.start_mark.index == value_node.end_mark.index:
            source._values[place] = position  # nothing is written: the next line is not meant
        mapping[key] = _read_node(reader, value_node, place, source, above)
    return mapping


def _read_scalar(reader: YAML, node: ScalarNode, loc: Loc, source: YamlSource) -> Any:
    kind = str(node.tag).rpartition(":")[2]
    if kind in ("timestamp", "merge"):  # of YAML 1.1; text in 1.2
        return node.value
    try:
        return reader.constructor.construct_object(node)
    except (YAMLError, ValueError, KeyError):  # `!!int x`, or a number of thousands of digits
        message = f"found {shorten(repr(node.value))}, which cannot be read as {kind}"
        source.problems.append(Problem(loc, message))
        return None


def shorten(text: str) -> str:
    """Cut a text to a length that can be read in a message."""
    return text if len(text) <= 60 else f"{text[:57]}…"


def _start(node: Node) -> Position:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _dotted(loc: Loc) -> str:
    """Return for example ``tasks[2].calls``."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
