"""Every mistake in a stream's YAML, with the exact message it gets; and what is accepted."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import pmn_cl
from benchmarks.worlds.digit_scenes.world import DigitScenes
from pmn_cl.config.names import make_world, world_class
from pmn_cl.config.spec import StreamSpec, WorldSpec
from pmn_cl.config.stream import find_stream, load_spec, shipped_streams
from pmn_cl.errors import UserError
from pmn_cl.registry import STRATEGIES

GOOD = """\
name: mine
world:
  name: digits
  seed: 0
  scenes: {train: 8, val: 4}
  noise: 0.1
tasks:
  - obj
  - att
  - task: rel
    calls: [obj, att]
    fraction: 50
  - {task: cap}
  - {task: cnt, calls: [rel]}
fraction: 100
strategies: [constant]
seeds: [0, 1]
"""
TOP_KEYS = (
    "name, world, tasks, fraction, budget, threads, evaluate_every, primary, measures, "
    "strategies, seeds, "
    "splits, orders, tuned"
)
TASK_NAMES = "obj, att, rel, cap, cnt, vqa or a reference package.module:Name"


@pytest.fixture(autouse=True)
def _own_import_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Work in an empty folder, and forget what a stream there has added to the path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def edited(old: str, new: str) -> str:
    """Return the good file with one place changed."""
    assert GOOD.count(old) == 1, f"{old!r} is not in the file once"
    return GOOD.replace(old, new)


def without(key: str) -> str:
    """Return the good file without a key of the top level and everything under it."""
    kept, dropping = [], False
    for line in GOOD.splitlines(keepends=True):
        if not line.startswith(" "):
            dropping = line.startswith(f"{key}:")
        if not dropping:
            kept.append(line)
    return "".join(kept)


def load(text: str | bytes) -> StreamSpec:
    """Read a file ``stream.yaml`` with this content."""
    path = Path("stream.yaml")
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_spec(path)


def messages(text: str | bytes) -> list[str]:
    """Return what is said about a bad file, each line without the file's name."""
    with pytest.raises(UserError) as caught:
        load(text)
    lines = str(caught.value).split("\n")
    assert all(line.startswith("stream.yaml:") for line in lines), lines
    return [line.removeprefix("stream.yaml:") for line in lines]


def bad(name: str, old: str, new: str, message: str) -> Any:
    """Return a case: one place of the good file changed, and the whole message."""
    return pytest.param(edited(old, new), message, id=name)


ONE_EDIT = [
    # keys
    bad("key of a task", "    fraction: 50", "    fractoin: 50",
        "12:5: tasks[2].fractoin: unknown key 'fractoin', expected one of task, calls, fraction, "
        "extra, curriculum; did you mean 'fraction'?"),
    bad("key of a world", "  noise: 0.1", "  noize: 0.1",
        "6:3: world.noize: unknown key 'noize', expected one of seed, scenes, features, noise, "
        "duplicates, backgrounds; did you mean 'noise'?"),
    bad("key deep in a world", "train: 8", "trian: 8",
        "5:12: world.scenes.trian: unknown key 'trian', expected one of train, val, test, novel; "
        "did you mean 'train'?"),
    bad("key unlike any", "{task: cap}", "{task: cap, zzz: 1}",
        "13:17: tasks[3].zzz: unknown key 'zzz', expected one of task, calls, fraction, extra, "
        "curriculum"),
    bad("key twice", "  noise: 0.1", "  seed: 1",
        "6:3: world.seed: duplicate key 'seed', first given in line 4; expected it once"),
    bad("key that is a list", "{task: cap}", "{task: cap, [a]: 1}",
        "13:17: tasks[3]: found a list or a mapping as a key, expected text"),
    bad("merge key", "{task: cap}", "{<<: {fraction: 20}, task: cap}",
        "13:6: tasks[3].<<: unknown key '<<', expected one of task, calls, fraction, extra, "
        "curriculum"),
    # curriculum
    bad("stage that leaves nothing out", "{task: cap}", "{task: cap, curriculum: [{until: 30}]}",
        "13:30: tasks[3].curriculum[0]: a stage of a curriculum leaves something out: name "
        "`without` (question families), `most_operations` or `most_objects`"),
    bad("stages that do not rise", "{task: cap}",
        "{task: cap, curriculum: [{until: 30, most_objects: 6}, {until: 20, most_objects: 9}]}",
        "13:29: tasks[3].curriculum: the stages end at [30.0, 20.0] percent: let each end after "
        "the one before"),
    bad("stage without an end", "{task: cap}", "{task: cap, curriculum: [{most_objects: 6}]}",
        "13:30: tasks[3].curriculum[0].until: missing, expected a value"),
    # extra
    bad("extra that the world cannot make", "{task: cap}", "{task: cap, extra: obj}",
        "13:24: tasks[3].extra: the world 'digits' makes no further samples of 'cap' out of 'obj', "
        "expected vqa out of rel or cnt out of obj"),
    bad("extra a list", "{task: cap}", "{task: cap, extra: [rel]}",
        "13:24: tasks[3].extra: found ['rel'] (a list), expected text"),
    # name
    bad("name a number", "name: mine", "name: 5",
        "1:7: name: found 5 (a whole number), expected text"),
    bad("name true", "name: mine", "name: true",
        "1:7: name: found true (true/false), expected text"),
    bad("name empty", "name: mine", "name: ''",
        "1:7: name: found '' (text), expected some text"),
    bad("name left out", "name: mine", "name:",
        "1:1: name: found nothing, expected text"),
    bad("name of half a character", "name: mine", 'name: "\\ud800"',
        "1:7: name: found '\\ud800' (text), expected text that UTF-8 can write"),
    # world
    bad("world unknown", "name: digits", "name: digit",
        "3:9: world.name: unknown world 'digit', expected one of digits, visual_genome or a "
        "reference package.module:Name; did you mean 'digits'?"),
    bad("world without name", "  name: digits\n", "",
        "3:3: world.name: missing, expected the name of a world"),
    bad("world's name a number", "name: digits", "name: 5",
        "3:9: world.name: found 5 (a whole number), expected the name of a world"),
    bad("world's module missing", "name: digits", "name: no_such_package.world:Mine",
        "3:9: world.name: no module 'no_such_package' on the path, expected package.module:Name; "
        "put it beside the YAML file or install it"),
    bad("world's submodule missing", "name: digits", "name: benchmarks.nowhere:Mine",
        "3:9: world.name: no module 'benchmarks.nowhere' on the path, expected "
        "package.module:Name; put it beside the YAML file or install it"),
    bad("world's class missing", "name: digits",
        "name: benchmarks.worlds.digit_scenes.world:DigitScene",
        "3:9: world.name: module 'benchmarks.worlds.digit_scenes.world' has no 'DigitScene'; "
        "did you mean 'DigitScenes'?"),
    bad("world that is a task", "name: digits", "name: pmn_cl.tasks.objects:ObjectTask",
        "3:9: world.name: 'pmn_cl.tasks.objects:ObjectTask' is no pmn_cl.data.world.World, "
        "and must be one"),
    bad("world that is a function", "name: digits", "name: pmn_cl.data.world:cache_folder",
        "3:9: world.name: 'pmn_cl.data.world:cache_folder' is no pmn_cl.data.world.World, "
        "and must be one"),
    bad("world that is abstract", "name: digits", "name: pmn_cl.data.world:World",
        "3:9: world.name: 'pmn_cl.data.world:World' lacks name, summary, write"),
    bad("world by file name", "name: digits", "name: ./mine.py:Mine",
        "3:9: world.name: found './mine.py:Mine', expected a reference package.module:Name"),
    bad("world without module", "name: digits", "name: ':Mine'",
        "3:9: world.name: found ':Mine', expected a reference package.module:Name"),
    bad("world without class", "name: digits", "name: 'pmn_cl.data.world:'",
        "3:9: world.name: found 'pmn_cl.data.world:', expected a reference package.module:Name"),
    bad("seed as text", "seed: 0", "seed: '0'",
        "4:9: world.seed: found '0' (text), expected a whole number"),
    bad("seed negative", "seed: 0", "seed: -1",
        "4:9: world.seed: found -1 (a whole number), expected a number from 0 to 4294967295"),
    bad("seed a fraction", "seed: 0", "seed: 1.0",
        "4:9: world.seed: found 1.0 (a number), expected a whole number"),
    bad("scenes a number", "{train: 8, val: 4}", "8",
        "5:11: world.scenes: found 8 (a whole number), expected a mapping"),
    bad("scenes left out", "{train: 8, val: 4}", "",
        "5:3: world.scenes: found nothing, expected a mapping"),
    bad("no scenes", "train: 8", "train: 0",
        "5:19: world.scenes.train: found 0 (a whole number), expected a number of at least 1"),
    bad("noise infinite", "noise: 0.1", "noise: .inf",
        "6:10: world.noise: found inf (a number), expected a finite number"),
    bad("features out of range", "noise: 0.1", "features: 5",
        "6:13: world.features: found 5 (a whole number), expected a number from 8 to 4096"),
    # tasks
    bad("task a number", "{task: cap}", "5",
        "13:5: tasks[3]: found 5 (a whole number), expected a name or a mapping"),
    bad("task left out", "{task: cap}", "",
        "13:4: tasks[3]: found nothing, expected a name or a mapping"),
    bad("task without task", "{task: cap}", "{calls: [obj]}",
        "13:5: tasks[3].task: missing, expected a value"),
    bad("task's name a number", "{task: cap}", "{task: 5}",
        "13:12: tasks[3].task: found 5 (a whole number), expected text"),
    bad("task unknown", "{task: cap}", "caption",
        f"13:5: tasks[3]: unknown task 'caption', expected one of {TASK_NAMES}; "
        "did you mean 'cap'?"),
    bad("task unknown, with options", "{task: cap}", "{task: caption}",
        f"13:12: tasks[3].task: unknown task 'caption', expected one of {TASK_NAMES}; "
        "did you mean 'cap'?"),
    bad("task that is none", "{task: cap}", "pmn_cl.data.store:Store",
        "13:5: tasks[3]: 'pmn_cl.data.store:Store' is no pmn_cl.tasks.base.Task, and must be one"),
    bad("task that is abstract", "{task: cap}", "pmn_cl.tasks.base:Task",
        "13:5: tasks[3]: 'pmn_cl.tasks.base:Task' lacks name, summary, level, target, metric, "
        "constant, decode, loss, score"),
    bad("task twice", "{task: cap}", "{task: rel}",
        "13:12: tasks[3].task: 'rel' is in the stream twice, expected once"),
    bad("task twice by its reference", "{task: cap}", "pmn_cl.tasks.relations:RelationTask",
        "13:5: tasks[3]: 'rel' is in the stream twice, expected once"),
    bad("levels out of order", "  - {task: cap}", "  - vqa",
        "14:12: tasks[4].task: 'cnt' (level 2) comes after vqa of a higher level, "
        "expected tasks in the order of their levels"),
    # calls
    bad("calls of a later task", "calls: [obj, att]", "calls: [obj, cnt]",
        "11:18: tasks[2].calls[1]: 'cnt' is not learned before 'rel', expected one of obj, att"),
    bad("calls of a task not in the stream", "calls: [obj, att]", "calls: [vqa]",
        "11:13: tasks[2].calls[0]: 'vqa' is not learned before 'rel', expected one of obj, att"),
    bad("calls of the same level", "{task: cap}", "{task: cap, calls: [rel]}",
        "13:25: tasks[3].calls[0]: 'rel' is of level 1, not below 1, expected one of obj, att"),
    bad("calls of itself", "calls: [obj, att]", "calls: [rel]",
        "11:13: tasks[2].calls[0]: 'rel' calls itself, expected one of obj, att"),
    bad("calls of an unknown task", "calls: [obj, att]", "calls: [obj, atr]",
        "11:18: tasks[2].calls[1]: unknown task 'atr', expected one of obj, att; "
        "did you mean 'att'?"),
    bad("calls at the lowest level", "  - att\n", "  - {task: att, calls: [obj]}\n",
        "9:25: tasks[1].calls[0]: 'obj' is of level 0, not below 0, expected none, "
        "as no lower task comes before"),
    bad("calls twice", "calls: [obj, att]", "calls: [obj, obj]",
        "11:18: tasks[2].calls[1]: 'obj' is given twice, expected once"),
    bad("calls as text", "calls: [obj, att]", "calls: obj",
        "11:12: tasks[2].calls: found 'obj' (text), expected a list"),
    bad("calls of a number", "calls: [obj, att]", "calls: [1]",
        "11:13: tasks[2].calls[0]: found 1 (a whole number), expected text"),
    # fraction
    bad("fraction 0", "fraction: 100", "fraction: 0",
        "15:11: fraction: found 0 (a whole number), expected a number from 1 to 100 (percent)"),
    bad("fraction 101", "fraction: 100", "fraction: 101",
        "15:11: fraction: found 101 (a whole number), expected a number from 1 to 100 (percent)"),
    bad("fraction -5", "fraction: 100", "fraction: -5",
        "15:11: fraction: found -5 (a whole number), expected a number from 1 to 100 (percent)"),
    bad("fraction .nan", "fraction: 100", "fraction: .nan",
        "15:11: fraction: found nan (a number), expected a finite number"),
    bad("fraction .inf", "fraction: 100", "fraction: .inf",
        "15:11: fraction: found inf (a number), expected a finite number"),
    bad("fraction in words", "fraction: 100", "fraction: all",
        "15:11: fraction: found 'all' (text), expected a number"),
    bad("fraction quoted", "fraction: 100", "fraction: '100'",
        "15:11: fraction: found '100' (text), expected a number"),
    bad("fraction true", "fraction: 100", "fraction: true",
        "15:11: fraction: found true (true/false), expected a number"),
    bad("fraction a date", "fraction: 100", "fraction: 2024-13-45",
        "15:11: fraction: found '2024-13-45' (text), expected a number"),
    bad("fraction left out", "fraction: 100", "fraction:",
        "15:1: fraction: found nothing, expected a number"),
    bad("fraction of long text", "fraction: 100", f"fraction: {'x' * 99}",
        f"15:11: fraction: found '{'x' * 56}… (text), expected a number"),
    bad("fraction of a task", "fraction: 50", "fraction: 0.5",
        "12:15: tasks[2].fraction: found 0.5 (a number), expected a number from 1 to 100 "
        "(percent)"),
    # strategies
    bad("no strategies", "[constant]", "[]",
        "16:13: strategies: found [] (a list), expected at least one entry"),
    bad("strategies as text", "[constant]", "constant",
        "16:13: strategies: found 'constant' (text), expected a list"),
    bad("strategy unknown", "[constant]", "[constnat]",
        "16:14: strategies[0]: unknown strategy 'constnat', expected one of STRATEGIES "
        "or a reference package.module:Name; did you mean 'constant'?"),
    bad("strategy a number", "[constant]", "[3]",
        "16:14: strategies[0]: found 3 (a whole number), expected a name or a mapping"),
    bad("strategy without name", "[constant]", "[{variant: a}]",
        "16:14: strategies[0].name: missing, expected the name of a strategy"),
    bad("strategy twice", "[constant]", "[constant, constant]",
        "16:24: strategies[1]: 'constant' is given twice, expected once, or with a variant of "
        "its own"),
    bad("strategy with an unknown option", "[constant]", "[{name: pmn, gate: {kind: equal}}]",
        "16:26: strategies[0].gate: unknown key 'gate', expected one of size, training, lr_scale, "
        "gates, gates_of, departures, asking, finetune, keep_old, supervise, supervision, modules, "
        "start_from, memory, widths, untrained, shuffled; did you mean 'gates'?"),
    bad("executor that asks a wide probe", "[constant]", "[{name: executor, ask: [rel]}]",
        "16:14: strategies[0]: `ask: ['rel']` takes the answers of modules: add `probe: modules`, "
        "or leave `ask` out"),
    bad("executor with options of modules", "[constant]", "[{name: executor, lr_scale: 3.0}]",
        "16:14: strategies[0]: `lr_scale` is an option of modules, which the wide probe has none "
        "of: add `probe: modules`, or leave `lr_scale` out"),
    bad("executor of a stream without att", "  - att\n  - task: rel\n    calls: [obj, att]\n"
        "    fraction: 50\n  - {task: cap}\n  - {task: cnt, calls: [rel]}\nfraction: 100\n"
        "strategies: [constant]", "strategies: [executor]",
        "9:14: strategies[0]: the executor learns 'att' to answer other tasks by, but the stream "
        "has only obj; add 'att' to its tasks"),
    bad("strategy with a bad option", "[constant]", "[{name: pmn, gates: {kind: soft}}]",
        "16:40: strategies[0].gates.kind: found 'soft' (text), expected 'softmax', 'sigmoid', "
        "'equal' or 'hard'"),
    bad("strategy with an unknown setting", "[constant]",
        "[{name: pmn, training: {obj: {epoch: 3}}}]",
        "16:43: strategies[0].training.obj.epoch: unknown key 'epoch', expected one of "
        "learning_rate, batch_size, epochs, least_steps, patience, schedule, warmup, clip, "
        "beta2, by_scene, carried_rest, carried_lr, loss; did you "
        "mean 'epochs'?"),
    bad("variant a number", "[constant]", "[{name: constant, variant: 3}]",
        "16:40: strategies[0].variant: found 3 (a whole number), expected text"),
    # seeds
    bad("no seeds", "[0, 1]", "[]",
        "17:8: seeds: found [] (a list), expected at least one entry"),
    bad("seeds a number", "[0, 1]", "3",
        "17:8: seeds: found 3 (a whole number), expected a list"),
    bad("seeds negative", "[0, 1]", "[0, -1]",
        "17:12: seeds[1]: found -1 (a whole number), expected a number from 0 to 4294967295"),
    bad("seeds too large", "[0, 1]", "[4294967296]",
        "17:9: seeds[0]: found 4294967296 (a whole number), expected a number from 0 to "
        "4294967295"),
    bad("seeds twice", "[0, 1]", "[0, 1, 0]",
        "17:15: seeds[2]: 0 is given twice, expected once"),
    bad("seeds a fraction", "[0, 1]", "[1, 1.0]",
        "17:12: seeds[1]: found 1.0 (a number), expected a whole number"),
    bad("seeds true", "[0, 1]", "[1, true]",
        "17:12: seeds[1]: found true (true/false), expected a whole number"),
    bad("seeds quoted", "[0, 1]", "['0']",
        "17:9: seeds[0]: found '0' (text), expected a whole number"),
    bad("seeds of 5000 digits", "[0, 1]", f"[{'9' * 5000}]",
        f"17:9: seeds[0]: found '{'9' * 56}…, which cannot be read as int"),
    # splits
    bad("no splits", "seeds: [0, 1]", "seeds: [0, 1]\nsplits: []",
        "18:9: splits: found [] (a list), expected at least one entry"),
    bad("split unknown", "seeds: [0, 1]", "seeds: [0, 1]\nsplits: [train]",
        "18:10: splits[0]: found 'train' (text), expected 'val', 'test' or 'novel'"),
    # what is beyond plain data
    bad("tag on a list", "seeds: [0, 1]", "seeds: !mine [0, 1]",
        "17:8: seeds: has the tag '!mine', expected plain data"),
    bad("tag of Python", "name: mine", "name: !!python/object:os.system x",
        "1:7: name: has the tag 'tag:yaml.org,2002:python/object:os.system', "
        "expected plain data"),
    bad("tag that does not fit", "fraction: 100", "fraction: !!int x",
        "15:11: fraction: found 'x', which cannot be read as int"),
    bad("anchor within itself", "scenes: {train: 8, val: 4}", "scenes: &s {train: *s}",
        "5:11: world.scenes.train: refers to itself, expected plain data"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), ONE_EDIT)
def test_one_mistake(text: str, message: str) -> None:
    assert messages(text) == [message.replace("STRATEGIES", ", ".join(STRATEGIES))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", f"1:1: found nothing, expected a mapping with the keys {TOP_KEYS}",
                     id="empty"),
        pytest.param("# only this\n", f"1:1: found nothing, expected a mapping with the keys "
                     f"{TOP_KEYS}", id="comment"),
        pytest.param("- obj\n", "1:1: found ['obj'] (a list), expected a mapping with the keys "
                     f"{TOP_KEYS}", id="list"),
        pytest.param("name:mine\n", "1:1: found 'name:mine' (text), expected a mapping with the "
                     f"keys {TOP_KEYS}", id="text"),
        pytest.param(GOOD + "sedes: [0]\n", "18:1: sedes: unknown key 'sedes', expected one of "
                     f"{TOP_KEYS}; did you mean 'seeds'?", id="unknown key"),
        pytest.param(GOOD + "name: other\n", "18:1: name: duplicate key 'name', first given in "
                     "line 1; expected it once", id="duplicate key"),
        pytest.param(without("seeds"), "1:1: seeds: missing, expected a value", id="missing key"),
        pytest.param(without("world") + "world: 5\n", "13:8: world: found 5 (a whole number), "
                     "expected a name or a mapping", id="world a number"),
        pytest.param(without("world") + "world: digitz\n", "13:8: world: unknown world 'digitz', "
                     "expected one of digits, visual_genome or a reference package.module:Name; "
                     "did you mean 'digits'?", id="plain world unknown"),
        pytest.param(without("tasks") + "tasks: []\n", "10:8: tasks: found [] (a list), expected "
                     "at least one entry", id="no tasks"),
        pytest.param(without("tasks") + "tasks: obj\n", "10:8: tasks: found 'obj' (text), "
                     "expected a list", id="tasks as text"),
        pytest.param(without("tasks") + "tasks:\n", "10:1: tasks: found nothing, expected a list",
                     id="tasks left out"),
        pytest.param("name: mine\n\tworld: digits\n", "2:1: not valid YAML: while scanning for "
                     "the next token, found character '\\t' that cannot start any token", id="tab"),
        pytest.param("seeds: [0, 1\n", "2:1: not valid YAML: while parsing a flow sequence from "
                     "line 1, expected ',' or ']', but got '<stream end>'", id="bracket left open"),
        pytest.param("name: 'mine\n", "2:1: not valid YAML: while scanning a quoted scalar from "
                     "line 1, found unexpected end of stream", id="quote left open"),
        pytest.param("name mine\nworld: digits\n", "2:6: not valid YAML: mapping values are not "
                     "allowed here", id="no colon"),
        pytest.param("name: *mine\n", "1:7: not valid YAML: found undefined alias 'mine'",
                     id="alias of nothing"),
        pytest.param(GOOD + "---\n" + GOOD, "18:1: not valid YAML: expected a single document in "
                     "the stream from line 1, but found another document", id="two documents"),
        pytest.param(b"\x89HDF\r\n\x1a\n", "1:1: not a text file (invalid start byte), expected "
                     "YAML", id="binary"),
        pytest.param(GOOD.encode("utf-16"), "1:1: not a text file (invalid start byte), expected "
                     "YAML", id="UTF-16"),
        pytest.param(b"name: mine\nworld: di\0gits\n", "2:10: not valid YAML: the character "
                     "'\\x00' is not allowed", id="NUL"),
        pytest.param("name: " + "[" * 3000 + "]" * 3000, "1:1: nested too deeply, expected a few "
                     "levels", id="3000 lists in each other"),
        pytest.param("\n".join(["a0: &a0 [0]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]"
                     for i in range(1, 10)]), "1:1: more than 100,000 parts, expected fewer",
                     id="aliases of aliases"),
    ],
)  # fmt: skip
def test_file_as_a_whole(text: str | bytes, message: str) -> None:
    assert messages(text) == [message]


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        load_spec(tmp_path)
    assert str(caught.value) == f"{tmp_path}: cannot be read: Is a directory"
    with pytest.raises(UserError, match=r"none\.yaml: cannot be read: No such file or directory"):
        load_spec(Path("none.yaml"))


def test_all_mistakes_at_once_in_the_order_of_the_file() -> None:
    text = """\
        seeds: [0, 0]
        name: 5
        tasks: [obj, {task: rel, calls: [cap]}, vqqa]
        world:
          seed: 'x'
          name: digits
          sead: 1
        fraction: 200
        fraction: 100
        fraction: 50
        """
    assert messages(dedent(text)) == [
        "1:1: strategies: missing, expected a value",
        "1:12: seeds[1]: 0 is given twice, expected once",
        "2:7: name: found 5 (a whole number), expected text",
        "3:34: tasks[1].calls[0]: 'cap' is not learned before 'rel', expected one of obj",
        "3:41: tasks[2]: unknown task 'vqqa', expected one of obj, att, rel, cap, cnt, vqa or a "
        "reference package.module:Name; did you mean 'vqa'?",
        "5:9: world.seed: found 'x' (text), expected a whole number",
        "7:3: world.sead: unknown key 'sead', expected one of seed, scenes, features, noise, "
        "duplicates, backgrounds; did you mean 'seed'?",
        "8:11: fraction: found 200 (a whole number), expected a number from 1 to 100 (percent)",
        "9:1: fraction: duplicate key 'fraction', first given in line 8; expected it once",
        "10:1: fraction: duplicate key 'fraction', first given in line 8; expected it once",
    ]


def test_mistake_behind_an_alias_is_where_it_is_written() -> None:
    text = edited("calls: [obj, att]", "calls: &c [obj, atr]").replace(
        "{task: cap}", "{task: cap, calls: *c}"
    )
    expected = "unknown task 'atr', expected one of obj, att; did you mean 'att'?"
    assert messages(text) == [
        f"11:21: tasks[2].calls[1]: {expected}",
        f"11:21: tasks[3].calls[1]: {expected}",
    ]


def test_an_executor_needs_a_world_with_programs() -> None:
    world = "digits\n  seed: 0\n  scenes: {train: 8, val: 4}\n  noise: 0.1"
    text = edited(world, "visual_genome\n  path: prepared").replace("[constant]", "[executor]")
    assert messages(text) == [
        "14:14: strategies[0]: the world 'visual_genome' has no programs that say what its "
        "questions ask; execute them on one that has, such as digits"
    ]


def test_shipped_stream_says_what_the_paper_says() -> None:
    spec = load_spec(shipped_streams()["stream.yaml"])
    assert spec.name == "digits" and spec.seeds == [0] and spec.fraction == 100
    assert {item.task: item.calls for item in spec.tasks} == {
        "obj": [],
        "att": [],
        "rel": ["obj", "att"],
        "cap": ["obj", "att"],
        "cnt": ["obj", "att", "rel"],
        "vqa": ["rel", "obj", "att", "cnt", "cap"],
    }
    world = make_world(spec.world)
    assert isinstance(world, DigitScenes)
    assert world.options.scenes.train == 10_000 and world.options.seed == 0


def test_shortest_file() -> None:
    spec = load("{name: a, world: digits, tasks: [obj], strategies: [constant], seeds: [3]}")
    assert spec.world == WorldSpec(name="digits") and world_class(spec.world) is DigitScenes
    assert spec.fraction == 100
    [task] = spec.tasks
    assert (task.task, task.calls, task.fraction) == ("obj", [], None)


def test_options_reach_the_world() -> None:
    world = make_world(load(edited("noise: 0.1", "noise: 5e-4")).world)
    assert isinstance(world, DigitScenes)
    assert world.options.noise == 0.0005 and world.options.scenes.train == 8
    assert world.options.scenes.test == 2_000  # not given


@pytest.mark.parametrize("text", ["no", "off", "2024-01-01", "1:30", "null and void", "Ä [x] ✓"])
def test_plain_text_stays_text(text: str) -> None:
    assert load(edited("name: mine", f"name: {text}")).name == text


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(GOOD.replace("\n", "\r\n").encode(), id="CRLF"),
        pytest.param(b"\xef\xbb\xbf" + GOOD.encode(), id="byte order mark"),
        pytest.param(edited("name: mine", "# über\nname: mine").encode(), id="comment"),
        pytest.param(edited("[0, 1]", "&s [0, 1]").encode(), id="anchor"),
    ],
)
def test_same_stream_written_otherwise(content: bytes) -> None:
    assert load(content) == load(GOOD)


def test_alias_repeats_what_it_stands_for() -> None:
    text = edited("calls: [obj, att]", "calls: &c [obj, att]")
    spec = load(text.replace("{task: cap}", "{task: cap, calls: *c}"))
    assert spec.tasks[3].calls == ["obj", "att"]


def test_empty_call_list_is_kept() -> None:
    spec = load(edited("calls: [obj, att]", "calls: []"))
    assert spec.tasks[2].calls == []


def test_file_here_comes_before_shipped_one() -> None:
    assert find_stream("stream.yaml") == (shipped_streams()["stream.yaml"], True)
    assert find_stream("stream") == (shipped_streams()["stream.yaml"], True)
    Path("stream.yaml").write_text(GOOD)
    assert find_stream("stream.yaml") == (Path("stream.yaml"), False)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("steam.yaml", "; did you mean 'stream.yaml'?"),
        ("elsewhere/stream.yaml", "; did you mean 'stream.yaml'?"),
        ("qqq", ""),
        ("x" * 5000, ""),  # longer than any file's name may be
        ("nul\0", ""),
    ],
)
def test_no_such_stream(name: str, near: str) -> None:
    with pytest.raises(UserError) as caught:
        find_stream(name)
    shipped = ", ".join(shipped_streams())
    expected = f"{name}: no such file, and no shipped stream of that name ({shipped}){near}"
    assert str(caught.value) == expected


# Things of somebody else's, in files beside the YAML.

PLUG_IN = '''
from typing import Literal

from pydantic import Field, model_validator

from pmn_cl.tasks.relations import RelationTask
from pmn_cl.data.world import World, WorldOptions


class RoomOptions(WorldOptions):
    walls: int = Field(4, gt=2)
    colour: Literal["red", "Blue"] = "red"
    sizes: list[int] = []
    doors: dict[str, list[float]] = {}

    @model_validator(mode="after")
    def _has_room(self):
        if self.walls == 13:
            raise ValueError("13 walls bring no luck, expected any other number")
        return self


class Rooms(World):
    """Rooms."""

    name, summary = "rooms", "empty rooms"
    Options = RoomOptions

    def write(self, store, progress):
        pass


class Unnamed(World):
    def write(self, store, progress):
        pass


class Near(RelationTask):
    name, summary = "near", "find the nearest box"
'''


def with_plug_in(world: str = "{name: 'my_rooms:Rooms'}", tasks: str = "[obj, att]") -> str:
    """Write the plug-in beside the YAML and return a YAML that uses it."""
    Path("my_rooms.py").write_text(PLUG_IN)
    return f"name: a\nworld: {world}\ntasks: {tasks}\nstrategies: [constant]\nseeds: [0]\n"


def test_world_and_task_of_somebody_else() -> None:
    spec = load(
        with_plug_in(
            "{name: 'my_rooms:Rooms', walls: 6}",
            "[obj, {task: 'my_rooms:Near', calls: [obj]}, {task: vqa, calls: [near, obj]}]",
        )
    )
    world = make_world(spec.world)
    assert world.name == "rooms" and world.options.model_dump()["walls"] == 6
    assert spec.tasks[1].task == "my_rooms:Near" and spec.tasks[2].calls == ["near", "obj"]


def test_plug_in_in_a_package() -> None:
    text = with_plug_in("'my_package.inner.rooms:Rooms'")
    Path("my_package/inner").mkdir(parents=True)
    Path("my_rooms.py").rename("my_package/inner/rooms.py")
    assert world_class(load(text).world).summary == "empty rooms"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("wals: 3", "33: world.wals: unknown key 'wals', expected one of walls, colour, sizes, "
         "doors; did you mean 'walls'?"),
        ("walls: 2", "40: world.walls: found 2 (a whole number), expected greater than 2"),
        ("walls: 13", "8: world: 13 walls bring no luck, expected any other number"),
        ("colour: Bleu", "41: world.colour: found 'Bleu' (text), expected 'red' or 'Blue'"),
        ("sizes: [1, x]", "44: world.sizes[1]: found 'x' (text), expected a whole number"),
        ("doors: {a: [x]}", "45: world.doors.a[0]: found 'x' (text), expected a number"),
    ],
)  # fmt: skip
def test_options_of_a_plug_in(options: str, message: str) -> None:
    text = with_plug_in(f"{{name: 'my_rooms:Rooms', {options}}}")
    assert messages(text) == [f"2:{message}"]


@pytest.mark.parametrize(
    ("world", "message"),
    [
        ("'my_rooms:Room'", "module 'my_rooms' has no 'Room'; did you mean 'Rooms'?"),
        ("'my_rooms:Unnamed'", "'my_rooms:Unnamed' lacks name, summary"),
        ("'my_rooms:Near'", "'my_rooms:Near' is no pmn_cl.data.world.World, and must be one"),
    ],
)
def test_plug_in_that_does_not_fit(world: str, message: str) -> None:
    assert messages(with_plug_in(world)) == [f"2:8: world: {message}"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import no_such_thing", "ModuleNotFoundError: No module named 'no_such_thing' (my_broken"
         ".py, line 2)"),
        ("from json import no_such", "ImportError: cannot import name 'no_such' from 'json'"),
        ("1 / 0", "ZeroDivisionError: division by zero (my_broken.py, line 2)"),
        ("def f(:", "SyntaxError: invalid syntax (my_broken.py, line 2)"),
        ("raise SystemExit(3)", "SystemExit: 3 (my_broken.py, line 2)"),
    ],
)  # fmt: skip
def test_plug_in_that_cannot_be_imported(code: str, reason: str) -> None:
    Path("my_broken.py").write_text(f"'''A plug-in.'''\n{code}\n")
    [message] = messages(edited("name: digits", "name: my_broken:World"))
    start = f"3:9: world.name: module 'my_broken' cannot be imported: {reason}"
    assert message.startswith(start)


def test_folder_of_the_yaml_is_searched_last(tmp_path: Path) -> None:
    """Neither the standard library nor our packages are shadowed by what lies beside the YAML."""
    text = with_plug_in()
    for name in ("colorsys.py", "baselines.py", "rich.py"):
        Path(name).write_text("raise SystemExit('the wrong module')\n")
    Path("benchmarks").mkdir()
    Path("benchmarks/__init__.py").write_text("raise SystemExit('the wrong package')\n")
    Path("mine.yaml").write_text(text)
    code = """
        import json, sys
        from pathlib import Path
        from pmn_cl.config.stream import load_spec
        spec = load_spec(Path(sys.argv[1]))
        import colorsys, rich, benchmarks, baselines
        modules = colorsys, rich, benchmarks, baselines, sys.modules["my_rooms"]
        print(json.dumps([module.__file__ for module in modules]))
        """
    home = Path(pmn_cl.__file__).parent.parent
    (tmp_path / "elsewhere").mkdir()
    result = subprocess.run(
        [sys.executable, "-c", dedent(code), str(tmp_path / "mine.yaml")],
        cwd=tmp_path / "elsewhere",
        env={"PYTHONPATH": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    *others, mine = json.loads(result.stdout)
    assert not [path for path in others if path.startswith(str(tmp_path))]
    assert mine == str(tmp_path / "my_rooms.py")
