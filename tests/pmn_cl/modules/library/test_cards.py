"""The module library: what is kept comes back, and what does not fit is refused in words."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from pmn_cl.errors import UserError
from pmn_cl.modules.answer import AnswerModule
from pmn_cl.modules.count import CountModule
from pmn_cl.modules.library import cards as library
from pmn_cl.modules.library.cards import Card
from pmn_cl.modules.relation import RelationModule
from pmn_cl.modules.runtime.environment import Environment
from pmn_cl.modules.sizes import Departures, Gates, Sizes, WorldShape
from pmn_cl.modules.task_module import ModulePlan, TaskModule, identity_of
from pmn_cl.modules.terminal import AttributeModule, ObjectModule

REGION, BOXES = 6, 4
NAMES = {
    "objects": ["cat", "dog", "mat"],
    "attributes": ["red", "blue"],
    "relations": ["on", "under"],
    "directions": ["object", "subject"],
    "question words": ["", "how", "many", "cats", "dogs"],
    "counts": [str(n) for n in range(5)],
    "caption words": ["", "<s>", "</s>", "cat"],
    "answers": ["yes", "no", "1", "2"],
}
PLAN = ModulePlan(
    WorldShape(REGION, NAMES),
    Sizes(
        hidden=8,
        knowledge=8,
        attention=8,
        relation=8,
        relation_attention=8,
        caption=8,
        word=5,
        terminal=4,
    ),
    Gates(),
    Departures(count_layer=True, own_question=True),
)
Modules = dict[str, TaskModule]
KINDS: dict[str, tuple[type[TaskModule], tuple[str, ...], int]] = {
    "obj": (ObjectModule, (), 0),
    "att": (AttributeModule, (), 0),
    "rel": (RelationModule, ("obj", "att"), 1),
    "cnt": (CountModule, ("obj", "att", "rel"), 2),
    "vqa": (AnswerModule, ("obj", "att", "rel", "cnt"), 3),
}


def make(seed: int = 0, share: bool = False) -> Modules:
    """Modules of five tasks with weights and running statistics of their own, frozen."""
    torch.manual_seed(seed)
    made: Modules = {}
    for task, (kind, calls, _) in KINDS.items():
        module = kind(PLAN, {name: made[name] for name in calls})
        if task == "vqa" and share:
            module.share("cnt")
        for part in module.modules():
            if isinstance(part, nn.BatchNorm1d):
                part.running_mean.normal_()
        module.freeze()
        made[task] = module
    return made


def card_of(module: TaskModule) -> Card:
    level = KINDS[module.task][2]
    return library.card_of(module, level=level, data="d" * 64, metric="accuracy", score=0.5)


@pytest.fixture(scope="module")
def modules() -> Modules:
    return make()


@pytest.fixture
def files(modules: Modules, tmp_path: Path) -> dict[str, Path]:
    """A library of its own for every test."""
    return {task: library.save(m, card_of(m), tmp_path) for task, m in modules.items()}


def load_all(files: dict[str, Path]) -> Modules:
    loaded: Modules = {}
    for task, path in files.items():
        loaded[task] = library.load(path, loaded)
    return loaded


@torch.no_grad()
def answer(module: TaskModule) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    corner = 0.5 * torch.rand(7, BOXES, 2, generator=generator)
    batch = {
        "regions": torch.randn(7, BOXES, REGION, generator=generator),
        "boxes": torch.cat([corner, corner + 0.3], dim=2),
        "mask": torch.ones(7, BOXES, dtype=torch.bool),
        "question": torch.randint(1, 5, (7, 3), generator=generator),
        "box": torch.randint(0, BOXES, (7,), generator=generator),
        "relation": torch.randint(0, 2, (7,), generator=generator),
        "direction": torch.randint(0, 2, (7,), generator=generator),
    }
    env = Environment.of(batch)
    return module.outputs(module(module.own_query(env), env), env)


def header_of(path: Path) -> dict[str, Any]:
    """What a safetensors file begins with: its length in eight bytes, then JSON."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    found: dict[str, Any] = json.loads(raw[8 : 8 + length])
    return found


def rewrite(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the card of a file, and nothing else."""
    card = json.loads(header_of(path)["__metadata__"]["card"])
    change(card)
    save_file(load_file(path), path, metadata={"card": json.dumps(card)})


# There and back.


@pytest.mark.parametrize("share", [False, True], ids=["copies", "shared"])
def test_what_is_kept_comes_back_the_same(tmp_path: Path, share: bool) -> None:
    made = make(seed=2, share=share)
    loaded = load_all({task: library.save(m, card_of(m), tmp_path) for task, m in made.items()})
    for task, module in made.items():
        assert type(loaded[task]) is type(module)
        assert loaded[task].identity == module.identity == identity_of(loaded[task])
        assert torch.equal(answer(loaded[task]), answer(module))
        assert card_of(loaded[task]) == card_of(module)
    if share:
        assert loaded["vqa"].asking is loaded["cnt"].asking


def test_a_loaded_module_is_frozen_and_borrows_its_callees(files: dict[str, Path]) -> None:
    loaded = load_all(files)
    for module in loaded.values():
        module.train()  # which a frozen module does not heed
        assert not any(part.training for part in module.modules())
        assert not any(parameter.requires_grad for parameter in module.parameters())
        for name, callee in module.callees.items():
            assert callee is loaded[name]


def test_a_file_holds_a_modules_own_weights_and_not_its_callees(
    files: dict[str, Path], modules: Modules
) -> None:
    for task, path in files.items():
        assert load_file(path).keys() == modules[task].state_dict().keys()


def test_a_module_may_be_loaded_among_others_that_it_does_not_call(
    files: dict[str, Path], modules: Modules
) -> None:
    loaded = library.load(files["rel"], modules)  # cnt and vqa are there too
    assert set(loaded.callees) == {"obj", "att"}


def test_a_card_says_what_is_needed_to_build_the_module(
    files: dict[str, Path], modules: Modules
) -> None:
    card = library.read_card(files["cnt"])
    assert (card.task, card.level, card.metric, card.score) == ("cnt", 2, "accuracy", 0.5)
    assert card.module == "pmn_cl.modules.count:CountModule"
    assert card.calls == {name: modules[name].identity for name in ("obj", "att", "rel")}
    assert card.plan() == replace(PLAN, shape=WorldShape(REGION, card.vocabulary))
    assert card.vocabulary == {name: NAMES[name] for name in CountModule.vocabulary}
    assert files["cnt"].name == f"cnt-{card.identity[:10]}.safetensors"


def test_a_library_lists_all_its_modules(files: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a module", "utf-8")
    found = library.read_library(tmp_path)
    assert {card.task: path for path, card in found.items()} == files
    assert library.read_library(tmp_path / "nowhere") == {}


def test_identity_depends_on_the_callees_too(modules: Modules) -> None:
    torch.manual_seed(3)
    other = ObjectModule(PLAN, {})
    other.freeze()
    rel = RelationModule(PLAN, {"obj": other, "att": modules["att"]})
    rel.load_state_dict(modules["rel"].state_dict())
    rel.freeze()
    assert card_of(rel).digest == card_of(modules["rel"]).digest
    assert rel.identity != modules["rel"].identity


def test_a_module_that_still_learns_cannot_be_kept() -> None:
    with pytest.raises(UserError, match="M_obj is still learning"):
        card_of(ObjectModule(PLAN, {}))


# What does not fit.


def test_a_missing_callee_is_named(files: dict[str, Path], modules: Modules) -> None:
    with pytest.raises(UserError, match=r"M_rel calls 'att', which is not there \(obj\)"):
        library.load(files["rel"], {"obj": modules["obj"]})
    with pytest.raises(UserError, match=r"M_rel calls 'obj', which is not there \(none\)"):
        library.load(files["rel"], {})


def test_a_callee_of_other_weights_is_refused(files: dict[str, Path], modules: Modules) -> None:
    other = make(seed=5)["att"]
    with pytest.raises(UserError) as raised:
        library.load(files["rel"], {**modules, "att": other})
    said = str(raised.value)
    assert f"att-{modules['att'].identity[:10]}" in said
    assert f"att-{other.identity[:10]}" in said


def test_a_callee_that_still_learns_is_refused(files: dict[str, Path], modules: Modules) -> None:
    learning = ObjectModule(PLAN, {})
    with pytest.raises(UserError, match="M_rel was learned on obj-"):
        library.load(files["rel"], {**modules, "obj": learning})


def test_a_callee_whose_own_callee_differs_is_refused(files: dict[str, Path]) -> None:
    """M_cnt calls M_rel, whose weights are right; but that M_rel calls another M_obj."""
    loaded = load_all({task: files[task] for task in ("obj", "att")})
    other = make(seed=5)["obj"]
    rel = RelationModule(PLAN, {"obj": other, "att": loaded["att"]})
    rel.load_state_dict(load_file(files["rel"]))
    rel.freeze()
    with pytest.raises(UserError, match="M_cnt was learned on rel-"):
        library.load(files["cnt"], {**loaded, "rel": rel})


def world(**changes: list[str]) -> WorldShape:
    return WorldShape(REGION, {**NAMES, **changes})


def refused(path: Path, shape: WorldShape) -> bool:
    try:
        library.check_world(library.read_card(path), shape, str(path))
    except UserError:
        return True
    return False


def test_the_same_world_fits(files: dict[str, Path]) -> None:
    assert not any(refused(path, world()) for path in files.values())


def test_more_of_what_a_module_does_not_know_does_no_harm(files: dict[str, Path]) -> None:
    other = world(objects=["another"], colours=["new"])
    assert not refused(files["rel"], other)
    assert refused(files["obj"], other)  # which knows objects


def test_regions_of_another_width_are_refused(files: dict[str, Path]) -> None:
    card = library.read_card(files["obj"])
    with pytest.raises(UserError, match=r"obj\S*: M_obj .* width 6, this world's have 2048"):
        library.check_world(card, WorldShape(2048, NAMES), str(files["obj"]))


@pytest.mark.parametrize(
    ("ours", "message"),
    [
        (["cat", "dog"], "knows 3 objects, this world has 2 .*'mat' is unknown here"),
        (["cat", "dog", "rug"], "'mat' is unknown here"),
        (["dog", "cat", "mat"], "in another order"),
        ([], "knows 3 objects, this world has 0"),
    ],
    ids=str,
)
def test_another_vocabulary_is_refused(
    files: dict[str, Path], ours: list[str], message: str
) -> None:
    card = library.read_card(files["obj"])
    with pytest.raises(UserError, match=message):
        library.check_world(card, world(objects=ours), "here")


def test_a_vocabulary_that_has_grown_is_called_so(files: dict[str, Path]) -> None:
    card = library.read_card(files["obj"])
    with pytest.raises(UserError) as raised:
        library.check_world(card, world(objects=[*NAMES["objects"], "hat"]), "here")
    assert "another order" not in str(raised.value)


# Files that are not as they should be.


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nothing\.safetensors: no such file"):
        library.load(tmp_path / "nothing.safetensors", {})


def test_a_folder_is_no_module(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read as a module"):
        library.load(tmp_path, {})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(files: dict[str, Path]) -> None:
    files["obj"].chmod(0)
    with pytest.raises(UserError, match="cannot be read as a module"):
        library.load(files["obj"], {})


def test_a_flipped_bit_anywhere_in_the_weights_is_noticed(files: dict[str, Path]) -> None:
    raw = files["obj"].read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    for place in range(8 + length, len(raw)):
        damaged = bytearray(raw)
        damaged[place] ^= 1 << (place % 8)
        files["obj"].write_bytes(bytes(damaged))
        with pytest.raises(UserError, match="do not match the card's digest"):
            library.load(files["obj"], {})


def test_a_file_cut_anywhere_is_refused(files: dict[str, Path]) -> None:
    raw = files["obj"].read_bytes()
    for length in [*range(0, len(raw), 7), len(raw) - 1]:
        files["obj"].write_bytes(raw[:length])
        with pytest.raises(UserError, match=r"obj\S*: cannot be read as a module"):
            library.load(files["obj"], {})


def test_a_file_with_more_at_its_end_is_refused(files: dict[str, Path]) -> None:
    files["obj"].write_bytes(files["obj"].read_bytes() + b"more")
    with pytest.raises(UserError, match="cannot be read as a module"):
        library.load(files["obj"], {})


@pytest.mark.parametrize("text", [b"", b"weights", b"{}", b"PK\x03\x04" + bytes(100), bytes(64)])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "other.safetensors"
    path.write_bytes(text)
    with pytest.raises(UserError, match=r"other\.safetensors: cannot be read as a module"):
        library.load(path, {})


class Trap:
    """Runs when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("by_torch", [False, True])
def test_nothing_in_a_file_is_executed(tmp_path: Path, by_torch: bool) -> None:
    mark, path = tmp_path / "executed", tmp_path / "trap.safetensors"
    if by_torch:
        torch.save({"weight": Trap(mark)}, path)
    else:
        path.write_bytes(pickle.dumps(Trap(mark)))
    with pytest.raises(UserError, match="cannot be read as a module"):
        library.load(path, {})
    assert not mark.exists()
    raw = path.read_bytes()
    torch.load(io.BytesIO(raw), weights_only=False) if by_torch else pickle.loads(raw)
    assert mark.exists()  # so the trap is one


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_a_file_without_a_card_is_refused(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    path = tmp_path / "plain.safetensors"
    save_file({"weight": torch.zeros(3)}, path, metadata=metadata)
    with pytest.raises(UserError, match=r"plain\.safetensors: has no card"):
        library.load(path, {})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda card: card.update(colour="red"), "Extra inputs are not permitted"),
        (lambda card: card.pop("digest"), "Field required"),
        (lambda card: card.update(region="wide"), "valid integer"),
        (lambda card: card.update(calls=["obj"]), "object"),
    ],
    ids=["unknown field", "missing field", "not a number", "not a mapping"],
)
def test_a_card_that_cannot_be_read_is_refused(
    files: dict[str, Path], change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    rewrite(files["obj"], change)
    with pytest.raises(UserError, match=rf"obj\S*: its card cannot be read: .*{message}"):
        library.load(files["obj"], {})


@pytest.mark.parametrize("text", ["", "no JSON", "[]", '{"task": '])
def test_a_card_that_is_no_card_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.safetensors"
    save_file({"weight": torch.zeros(3)}, path, metadata={"card": text})
    with pytest.raises(UserError, match=r"odd\.safetensors: its card cannot be read"):
        library.load(path, {})


@pytest.mark.parametrize(
    "change",
    [
        lambda card: card["sizes"].update(depth=3),
        lambda card: card["sizes"].pop("hidden"),
        lambda card: card["sizes"].update(terminal=-1),
        lambda card: card["gates"].update(kind="loud"),
        lambda card: card["departures"].update(unheard_of=True),
        lambda card: card["vocabulary"].pop("objects"),
    ],
    ids=["sizes, more", "sizes, less", "sizes, negative", "gates", "departures", "vocabulary"],
)
def test_a_card_with_parts_that_cannot_be_read_is_refused(
    files: dict[str, Path], change: Callable[[dict[str, Any]], Any]
) -> None:
    rewrite(files["obj"], change)
    with pytest.raises(UserError):
        library.load(files["obj"], {})


def test_a_format_of_the_future_is_refused(files: dict[str, Path]) -> None:
    rewrite(files["obj"], lambda card: card.update(format=2))
    with pytest.raises(UserError, match="format"):
        library.load(files["obj"], {})


def test_a_card_with_another_identity_is_refused(files: dict[str, Path]) -> None:
    rewrite(files["obj"], lambda card: card.update(identity="0" * 64))
    with pytest.raises(UserError):
        library.load(files["obj"], {})


@pytest.mark.parametrize(
    "change",
    [
        lambda card: card["gates"].update(kind="equal"),
        lambda card: card["departures"].update(question_as_state=True),
    ],
    ids=["gates", "departures"],
)
def test_a_module_that_answers_otherwise_has_another_identity(
    files: dict[str, Path], modules: Modules, change: Callable[[dict[str, Any]], Any]
) -> None:
    rewrite(files["vqa"], change)
    try:
        loaded = library.load(files["vqa"], modules)
    except UserError:
        return
    assert not torch.allclose(answer(loaded), answer(modules["vqa"]), atol=1e-3)
    assert loaded.identity != modules["vqa"].identity


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("nowhere_at_all:Name", "no module 'nowhere_at_all'"),
        ("pmn_cl.modules.terminal:Nothing", "has no 'Nothing'"),
        ("pmn_cl.modules.layers:GatedTanh", "TaskModule"),
        ("subprocess:Popen", "TaskModule"),
    ],
)
def test_a_card_that_names_no_module_is_refused(
    files: dict[str, Path], reference: str, message: str
) -> None:
    rewrite(files["obj"], lambda card: card.update(module=reference))
    with pytest.raises(UserError, match=message):
        library.load(files["obj"], {})


def test_weights_that_do_not_fit_the_module_are_refused(files: dict[str, Path]) -> None:
    rewrite(files["obj"], lambda card: card.update(region=REGION + 1))
    with pytest.raises(UserError, match=r"obj\S*: the weights do not fit .*ObjectModule"):
        library.load(files["obj"], {})


def test_weights_of_another_module_are_refused(files: dict[str, Path]) -> None:
    """Right names and shapes, and the card of another."""
    card = library.read_card(files["obj"])
    weights = {name: value + 1 for name, value in load_file(files["obj"]).items()}
    save_file(weights, files["obj"], metadata={"card": card.model_dump_json()})
    with pytest.raises(UserError, match="do not match the card's digest"):
        library.load(files["obj"], {})


# Writing.


def test_nothing_but_the_module_is_left_in_the_folder(
    files: dict[str, Path], tmp_path: Path
) -> None:
    assert sorted(tmp_path.iterdir()) == sorted(files.values())


def test_a_module_kept_again_is_the_same_file(
    files: dict[str, Path], modules: Modules, tmp_path: Path
) -> None:
    raw = files["vqa"].read_bytes()
    path = library.save(modules["vqa"], card_of(modules["vqa"]), tmp_path)
    assert path == files["vqa"]
    assert path.read_bytes() == raw


def test_a_write_that_fails_leaves_the_old_file_and_no_new_one(
    files: dict[str, Path],
    modules: Modules,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw = files["obj"].read_bytes()

    def half(weights: Any, path: Any, metadata: Any = None) -> None:
        Path(path).write_bytes(raw[: len(raw) // 2])  # as far as the disk went
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(library, "save_file", half)
    other = make(seed=8)["obj"]
    for module in (modules["obj"], other):
        with pytest.raises(OSError, match="No space left"):
            library.save(module, card_of(module), tmp_path)
    assert files["obj"].read_bytes() == raw
    assert set(library.read_library(tmp_path)) == set(files.values())


def test_a_file_of_the_folder_is_whole_whenever_it_is_looked_at(
    modules: Modules, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Just before it gets its name, nothing of that name is there, and all has been written."""
    seen: list[tuple[list[Path], bool]] = []
    rename = os.replace

    def looked(source: Any, target: Any) -> None:
        whole = load_file(source).keys() == modules["obj"].state_dict().keys()
        seen.append((list(tmp_path.glob(f"*{library.SUFFIX}")), whole))
        rename(source, target)

    monkeypatch.setattr(os, "replace", looked)
    path = library.save(modules["obj"], card_of(modules["obj"]), tmp_path)
    assert seen == [([], True)]
    assert library.load(path, {}).identity == modules["obj"].identity


def test_a_folder_is_made_where_there_is_none(modules: Modules, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    path = library.save(modules["obj"], card_of(modules["obj"]), folder)
    assert path.parent == folder
