"""Files for evaluations elsewhere: the official forms, every question once, ensembles by hand."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from made_prepared import make_prepared

from pmn_cl.cli.main import main
from pmn_cl.config.names import make_world
from pmn_cl.config.spec import RunSpec, StreamSpec
from pmn_cl.config.stream import parse_stream
from pmn_cl.data.samples import Samples
from pmn_cl.data.store import Store
from pmn_cl.results.result import read_results
from pmn_cl.runs import answers as answering
from pmn_cl.runs.learned import LearnedRun
from pmn_cl.runs.plan import plan_runs
from pmn_cl.runs.worker import finish
from pmn_cl.tasks.base import LossTerms, Task
from pmn_cl.tasks.captions import words_to_text

TASKS = [
    *("obj", "att"),
    {"task": "rel", "calls": ["obj", "att"]},
    {"task": "cap", "calls": ["obj"]},
    {"task": "cnt", "calls": ["obj", "att", "rel"], "extra": "obj"},
    {"task": "vqa", "calls": ["rel", "obj", "att", "cnt", "cap"]},
]
PMN = {"name": "pmn", "asking": "shared", "finetune": ["cnt"]}  # as the paper trains M_vqa


def spec_on(prepared: Path) -> StreamSpec:
    return parse_stream(
        {
            "name": "small",
            "world": {"name": "visual_genome", "path": str(prepared)},
            "tasks": TASKS,
            "budget": 20,
            "strategies": [PMN, "hard_sharing", "constant"],
            "seeds": [0, 1],
        }
    )


def carried_out(run: RunSpec, folder: Path) -> None:
    (folder / run.key).mkdir(parents=True)
    result = finish(run, folder / run.key, None, "cpu", 60.0, lambda: False)
    assert result.status == "completed", result.error


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_prepared(tmp_path_factory.mktemp("answers") / "prepared")


@pytest.fixture(scope="module")
def runs(prepared: Path) -> Path:
    folder = prepared.parent / "runs"
    for run in plan_runs(spec_on(prepared)):
        if run.strategy.name == "pmn" or run.seed == 0:
            carried_out(run, folder)
    return folder


def answers(runs: Path, *arguments: str) -> Result:
    given = ["answers", str(runs), *arguments, "--device", "cpu"]
    return CliRunner().invoke(main, given, catch_exceptions=False)


def written(path: Path) -> list[dict[str, Any]]:
    loaded = json.loads(path.read_text("utf-8"))
    assert isinstance(loaded, list)
    return loaded


@pytest.mark.parametrize("strategy", ["pmn", "hard_sharing", "constant"])
@pytest.mark.parametrize("split", ["server", "test"])
def test_the_file_has_the_official_form(
    strategy: str, split: str, runs: Path, prepared: Path, tmp_path: Path
) -> None:
    """As the evaluation server checks it: these keys, these types, every question just once."""
    out = tmp_path / "answers.json"
    result = answers(runs, "--run", f"{strategy} 0", "--split", split, "--out", str(out))
    assert result.exit_code == 0, result.output
    store = Store(prepared / "vqa.h5")
    lines = written(out)
    assert all(set(line) == {"question_id", "answer"} for line in lines)
    assert all(type(line["question_id"]) is int for line in lines)
    assert all(line["answer"] in store.names["answers"] for line in lines)
    asked = store.table(split, "vqa")["question_id"].array.tolist()
    assert sorted(line["question_id"] for line in lines) == sorted(asked)
    assert ("accuracy" in result.output) == (split == "test")  # nobody knows it on the server's


def test_answers_earn_what_the_run_was_scored_with(
    runs: Path, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "_AT_ONCE", 5)  # in three pieces
    out = tmp_path / "answers.json"
    output = answers(runs, "--run", "pmn 1", "--split", "test", "--out", str(out)).output
    given = {line["question_id"]: line["answer"] for line in written(out)}
    store = Store(prepared / "vqa.h5")
    table = {name: column.load() for name, column in store.table("test", "vqa").items()}
    earned = 0.0
    for row, question in enumerate(table["question_id"].tolist()):
        for number, score in zip(table["answers"][row], table["scores"][row], strict=True):
            earned += float(score) * (store.names["answers"][number] == given[question])
    [scored] = [r for r in read_results(runs) if (r.strategy, r.seed) == ("pmn", 1)]
    assert earned / 12 == pytest.approx(scored.matrix("test")[-1][-1], abs=1e-6)
    assert f"accuracy {earned / 12:.4f}" in output


def test_an_ensemble_takes_the_highest_mean_probability(
    runs: Path, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "_AT_ONCE", 5)
    out = tmp_path / "answers.json"
    names = ["pmn 0", "pmn 1", "hard_sharing 0"]
    wanted = [part for name in names for part in ("--run", name)]
    result = answers(runs, *wanted, "--split", "server", "--out", str(out))
    assert "3 runs by mean probabilities" in result.output
    store = Store(prepared / "vqa.h5")
    scenes = Store(prepared / "features.h5").table("all", "scenes")
    asked = {name: torch.from_numpy(c.load().astype(np.int64)) for name, c in
             store.table("server", "vqa").items()}  # fmt: skip
    x = {
        "question": asked["question"],
        **{
            name: torch.from_numpy(scenes[name].load()[asked["scene"].numpy()])
            for name in ("regions", "boxes", "mask")
        },
    }
    x["regions"] = x["regions"].float()
    total = torch.zeros(len(asked["scene"]), 4, dtype=torch.float64)
    for name in names:
        strategy: Any = LearnedRun(runs, name).strategy
        with torch.no_grad():
            total += 1 / (1 + torch.exp(-strategy.model.eval()(x, "vqa").double()))
    expected = [store.names["answers"][i] for i in total.argmax(1).tolist()]
    assert [line["answer"] for line in written(out)] == expected


@dataclass
class Decided:
    """A run that gives every question the same logits."""

    store: Store
    logits: list[float]
    terms: LossTerms = field(default_factory=LossTerms)

    @property
    def strategy(self) -> SimpleNamespace:
        """It has learned by these terms."""
        return SimpleNamespace(settings={"vqa": SimpleNamespace(loss=self.terms)})

    def scenes(self, split: str) -> None:
        """It looks at none."""

    def predict(self, task: Task, samples: Samples, scenes: None) -> Any:
        return task.decode(torch.tensor(self.logits).expand(len(samples), -1))


def test_probabilities_are_averaged_not_logits(prepared: Path) -> None:
    """One run is very sure: by logits (means 3 and 2) it would outvote the other.

    Probabilities are 1 / (1 + e⁻ˣ): (1.000 + 0.018) / 2 = 0.509 and (0.953 + 0.731) / 2 = 0.842.
    """
    store = make_world(spec_on(prepared).world).prepare()
    both = ([10.0, 3.0, -9.0, -9.0], [-4.0, 1.0, -9.0, -9.0])
    runs: list[Any] = [Decided(store, logits) for logits in both]
    assert answering.answer(runs, "server").tolist() == [1] * 9
    assert answering.answer(runs[:1], "server").tolist() == [0] * 9


def test_answers_that_compete_are_averaged_as_shares(prepared: Path) -> None:
    """Softmax: (0.73 + 0.02) / 2 = 0.37 and (0.27 + 0.98) / 2 = 0.62; by σ all would be 1.00."""
    store = make_world(spec_on(prepared).world).prepare()
    both = ([41.0, 40.0, 0.0, 0.0], [40.0, 44.0, 0.0, 0.0])
    runs: list[Any] = [Decided(store, logits, LossTerms(one_answer=True)) for logits in both]
    assert answering.answer(runs, "server").tolist() == [1] * 9


def test_captions_have_cocos_form_an_image_once(runs: Path, prepared: Path, tmp_path: Path) -> None:
    out = tmp_path / "captions.json"
    result = answers(runs, "--run", "pmn 0", "--task", "cap", "--out", str(out))
    assert result.exit_code == 0, result.output
    store = Store(prepared / "coco.h5")
    lines = written(out)
    assert all(set(line) == {"image_id", "caption"} for line in lines)
    scenes = store.table("test", "cap")["scene"].array.tolist()
    assert [line["image_id"] for line in lines] == [1000 + scene for scene in dict.fromkeys(scenes)]
    words = set(store.names["caption words"])
    assert all(set(line["caption"].split()) <= words - {"", "</s>"} for line in lines)
    opened = LearnedRun(runs, "pmn 0")
    _, captions = answering.describe(opened, "test")
    assert captions == [line["caption"] for line in lines]
    assert words_to_text(np.array([4, 5, 2, 6]), store.names["caption words"]) == "a dog"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--run", "pmn 7"], "no completed run 'pmn 7'"),
        (["--run", "pmn 0", "--split", "tset"], "did you mean 'test'?"),
        (["--run", "pmn 0", "--split", "server", "--task", "cap"], "no samples of 'cap'"),
        (
            ["--run", "pmn 0", "--run", "constant 0"],
            "'constant' gives answers without probabilities",
        ),
        (["--run", "pmn 0", "--run", "pmn 1", "--task", "cap"], "captions are those of one run"),
        (["--run", "pmn 0", "--out", "none/a.json"], "there is no folder none"),
    ],
)
def test_what_cannot_be_answered_is_refused(
    arguments: list[str], said: str, runs: Path, tmp_path: Path
) -> None:
    out = [] if "--out" in arguments else ["--out", str(tmp_path / "answers.json")]
    result = answers(runs, *arguments, *out)
    assert result.exit_code == 2
    assert said in result.output
    assert list(tmp_path.iterdir()) == []


def test_runs_on_other_data_are_refused(runs: Path, prepared: Path, tmp_path: Path) -> None:
    (prepared / "coco.h5").rename(tmp_path / "coco.h5")
    try:
        result = answers(runs, "--run", "pmn 0", "--out", str(tmp_path / "a.json"))
    finally:
        (tmp_path / "coco.h5").rename(prepared / "coco.h5")
    assert result.exit_code == 2
    assert "coco.h5: not prepared yet" in result.output


def test_a_question_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    store = Store(make_prepared(tmp_path) / "vqa.h5")
    column = store.table("server", "vqa")["question_id"]
    with store.path.open("r+b") as file:  # the second becomes as the first
        file.seek(column.offset or 0)
        first = file.read(8)
        file.write(first)
    with pytest.raises(answering.UserError, match=r"is 2 times in 'server', expected every"):
        answering.question_ids(Store(store.path), "server")


def test_a_world_without_published_ids_has_its_rows(digits: Store) -> None:
    ids, known = answering.question_ids(digits, "val")
    assert (ids.tolist(), known) == (list(range(500)), False)
    assert answering.image_ids(digits, "val", np.array([3, 1]))[0].tolist() == [3, 1]
