"""`modules list`, `export`, `import`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from commands import run

from pmn_cl.modules.library import cards as library
from pmn_cl.modules.relation import RelationModule
from pmn_cl.modules.sizes import Departures, Gates, Sizes, WorldShape
from pmn_cl.modules.task_module import ModulePlan
from pmn_cl.modules.terminal import ObjectModule


@pytest.fixture(scope="module")
def kept_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with M_obj and an M_rel that calls it."""
    names = {"objects": ["a", "b"], "relations": ["left"], "directions": ["object", "subject"]}
    sizes = Sizes(
        hidden=4,
        knowledge=4,
        attention=4,
        relation=4,
        relation_attention=4,
        caption=4,
        word=4,
        terminal=3,
    )
    plan = ModulePlan(WorldShape(5, names), sizes, Gates(), Departures())
    torch.manual_seed(0)
    obj = ObjectModule(plan, {})
    rel = RelationModule(plan, {"obj": obj})
    folder = tmp_path_factory.mktemp("library")
    for level, module in enumerate((obj, rel)):
        module.freeze()
        card = library.card_of(module, level=level, data="d" * 64, metric="accuracy", score=0.5)
        library.save(module, card, folder)
    return folder


def test_modules_are_listed_with_what_they_call(kept_modules: Path, tmp_path: Path) -> None:
    result = run("modules", "list", "--library", str(kept_modules))
    assert result.exit_code == 0
    title, obj, rel = result.stdout.splitlines()
    assert title.split() == ["module", "level", "calls", "validation", "regions", "learned", "from"]
    assert obj.split()[1:] == ["0", "-", "accuracy", "0.500", "5", "d" * 12]
    assert rel.split()[2] == obj.split()[0]  # the module called, by name and digest
    empty = run("modules", "list", "--library", str(tmp_path / "none"))
    assert empty.exit_code == 0 and empty.stdout.startswith("no modules in ")


def test_a_module_is_exported_with_what_it_calls_and_imported(
    kept_modules: Path, tmp_path: Path
) -> None:
    library = ("--library", str(kept_modules))
    out = tmp_path / "out"
    assert run("modules", "export", "rel", str(out), *library).exit_code == 0
    assert sorted(p.name for p in out.iterdir()) == sorted(p.name for p in kept_modules.iterdir())
    alone = run("modules", "export", "rel", str(tmp_path / "alone"), "--alone", *library)
    assert alone.exit_code == 0 and len(list((tmp_path / "alone").iterdir())) == 1
    result = run("modules", "import", str(out), "--library", str(tmp_path / "new"))
    assert result.exit_code == 0 and result.stdout.count("wrote ") == 2
    listed = [run("modules", "list", "--library", str(p)).stdout for p in (out, tmp_path / "new")]
    assert listed[0] == listed[1]


def test_modules_that_cannot_be_had_are_named(kept_modules: Path, tmp_path: Path) -> None:
    library = ("--library", str(kept_modules))
    result = run("modules", "export", "cat", str(tmp_path), *library)
    assert result.exit_code == 2 and "no module begins with 'cat'; there are obj-" in result.stderr
    [path] = kept_modules.glob("rel-*")
    spoilt = tmp_path / path.name
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    spoilt.write_bytes(content)
    good = next(kept_modules.glob("obj-*"))
    new = tmp_path / "new"
    result = run("modules", "import", str(good), str(spoilt), "--library", str(new))
    assert result.exit_code == 2 and "do not match the card's digest" in result.stderr
    assert not new.exists()  # nothing is taken where one file is bad
