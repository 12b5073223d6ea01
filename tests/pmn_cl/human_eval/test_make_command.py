"""``pmn-bench judge make`` on runs that were carried through."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pmn_cl.cli.main import main
from pmn_cl.config.stream import parse_stream
from pmn_cl.human_eval.preparation import named_boxes
from pmn_cl.human_eval.rounds import read_round
from pmn_cl.results.result import write_result
from pmn_cl.runs.execute import carry_out
from pmn_cl.runs.plan import plan_runs


@pytest.fixture(scope="module")
def runs(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small PMN and its baseline."""
    out = tmp_path_factory.mktemp("runs")
    scenes = {"train": 40, "val": 10, "test": 40, "novel": 10}
    rel = {"task": "rel", "calls": ["obj", "att"]}
    spec = parse_stream(
        {
            **{"name": "tiny", "world": {"name": "digits", "scenes": scenes}, "budget": 1},
            **{"tasks": ["obj", "att", rel, {"task": "vqa", "calls": ["rel", "obj", "att"]}]},
            **{"strategies": ["pmn", "independent"], "seeds": [0]},
        }
    )
    for planned in plan_runs(spec):
        run = planned.model_copy(update={"splits": ["test"], "evaluate_at_end": True})
        folder = out / run.key
        folder.mkdir()
        write_result(carry_out(run, folder, cache=cache), folder)
    return out


def make(runs: Path, out: Path, cache: Path, *more: object) -> Result:
    given = ["judge", "make", str(runs), "--out", str(out), "--cache", str(cache)]
    return CliRunner().invoke(main, [*given, *map(str, more)], catch_exceptions=False)


def test_a_round_of_real_runs(runs: Path, cache: Path, tmp_path: Path) -> None:
    out = tmp_path / "round"
    result = make(runs, out, cache, "--questions", 30, "--judges", 4, "--stratify")
    assert result.exit_code == 0, result.output
    assert re.match(r"30 of \d+ questions on test; 3 judges each\n", result.stdout)
    key = read_round(out)
    assert key.pmn.startswith("pmn-") and key.baseline.startswith("independent-")
    assert Path(key.folder) == runs.resolve()
    assert len(key.questions) == 30 and len(list(out.glob("judge-*.html"))) == 4
    for question in key.questions:
        right = (f"the answer is {question.pmn.answer} ", f"is {question.baseline.answer} ")
        assert right[0] in question.pmn.sentence and right[1] in question.baseline.sentence
        assert question.baseline.boxes  # the box that it looked at
        for side in (question.pmn, question.baseline):
            assert all(0 <= edge <= 1 for _, box in side.boxes for edge in box)


def test_boxes_are_those_of_the_sentence(runs: Path, cache: Path) -> None:
    from pmn_cl.explaining.explainer import Explainer

    for name in ("pmn", "independent"):
        for found in Explainer(runs, name, cache=cache).explain(list(range(25)), "test"):
            said = re.findall(r"box(?:es)? (\d+(?: \+ \d+)*)", found.sentence)
            numbers = [int(number) for some in said for number in some.split(" + ")]
            assert list(dict.fromkeys(numbers)) == named_boxes(found)


def test_what_cannot_be_judged_is_refused(runs: Path, cache: Path, tmp_path: Path) -> None:
    for more, message in (
        (["--baseline", "pmn"], "is the same run; expected another run"),
        (["--run", "none"], "no completed run 'none'"),
        (["--run", "independent"], "no completed run of 'independent'"),
        (["--split", "nowhere"], "no split 'nowhere'"),
    ):
        result = make(runs, tmp_path / "round", cache, *more)
        assert result.exit_code == 2 and message in result.output
        assert not (tmp_path / "round").exists()
    assert "is there already" in make(runs, tmp_path.parent, cache).output
