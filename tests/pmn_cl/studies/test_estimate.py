"""Estimates: the paper's parameters by hand, steps by hand, and what the command says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from made_prepared import ROWS, make_prepared

from pmn_cl.cli.main import main
from pmn_cl.config.spec import RunSpec
from pmn_cl.config.stream import find_stream, load_spec, parse_stream
from pmn_cl.runs.plan import plan_runs
from pmn_cl.studies import estimate as estimating
from pmn_cl.studies.estimate import PUBLISHED, Outline, TaskEstimate, count_parameters, estimate

TINY = Outline(
    region=32,
    regions=6,
    scenes=1000,
    names={what: names[:30] for what, names in PUBLISHED.names.items()},
    samples=dict.fromkeys(PUBLISHED.samples, 1001),
)


def paper_run(strategy: str = "pmn") -> RunSpec:
    return plan_runs(load_spec(find_stream("paper.yaml")[0]), [strategy], [0])[0]


def small_batches(run: RunSpec) -> RunSpec:
    sizes = {"obj": 8, "att": 8, "rel": 4, "cap": 2, "cnt": 4, "vqa": 4}
    training = {task: {"batch_size": size} for task, size in sizes.items()}
    options = {**run.strategy.options, "training": training}
    strategy = run.strategy.model_copy(update={"options": options})
    return run.model_copy(update={"strategy": strategy})


def linear(width: int, out: int) -> int:
    return width * out + out


def attention(key: int, data: int, hidden: int) -> int:
    """f and g to a common width, z from there to one number."""
    return linear(key, hidden) + linear(data, hidden) + linear(hidden, 1)


def gru(width: int, hidden: int) -> int:
    """Three gates, each with weights and biases from the input and from the state."""
    return 3 * (linear(width, hidden) + linear(hidden, hidden))


def receiver(width: int, hidden: int) -> int:
    return linear(width, hidden) + 2 * hidden  # batch norm's scale and shift


OBJECTS, ATTRIBUTES, RELATIONS, X = 1601, 400, 20, 2048
QUESTION, CAPTION, ANSWERS = 19_902, 9_490, 3_129
DESCRIBED = X + 300 + 300  # [X; M_obj(X); M_att(X)]
# From the paper's text alone: appendix A with hidden 512, words and terminals 300, captions 1000.
BY_HAND = {
    "obj": linear(X, 300) + linear(300, OBJECTS),
    "att": linear(X, 300) + linear(300, ATTRIBUTES),
    "rel": RELATIONS * 512  # I: a vector for each relation
    + 2 * 512  # and for each direction
    + linear(4, 512)  # Δ: the box's corners
    + linear(DESCRIBED + 512, 512)
    + linear(512, 512)  # U
    + attention(512, 512, 512),  # Ψ
    "cnt": QUESTION * 300
    + gru(300, 512)
    + attention(512, DESCRIBED, 512)  # Ω
    + attention(512, DESCRIBED, 512)  # Q→rel: b
    + linear(512, 512)
    + linear(512, 2 * RELATIONS)  # Q→rel: r
    + linear(512, 2)  # G over Ω and M_rel
    + 8 * 16,  # the counter's eight functions of 16 pieces
    "vqa": linear(512, 7)  # G over Ω, M_rel | M_obj, M_att, Δ, M_cnt, M_cap
    + gru(512, 512)  # I, U
    + linear(X, 512)
    + linear(512, 512)  # Δ
    + 2 * receiver(300, 512)  # of M_obj and M_att
    + receiver(512, 512)  # of Δ
    + receiver(13, 512)  # of M_cnt
    + receiver(300, 512)  # of M_cap, after attention over its words:
    + CAPTION * 300
    + attention(512, 300, 512)
    + 4 * linear(512, 512)  # Ψ: two gated tanh layers
    + linear(512, ANSWERS),
}


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The parameters of every module of the paper's stream, as they are built."""
    path = tmp_path_factory.mktemp("random") / "random.h5"
    tasks = dict.fromkeys(PUBLISHED.samples, 2)
    estimating.write_stand_in(path, PUBLISHED, tasks, scenes=2)
    strategy, training, _ = estimating._opened(paper_run(), path, "cpu")
    strategy.build(training)
    return {
        name: sum(p.numel() for p in module.parameters())
        for name, module in strategy.network.learned.items()
    }


@pytest.mark.parametrize("task", BY_HAND)
def test_modules_have_the_papers_parameters(task: str, modules: dict[str, int]) -> None:
    assert modules[task] == BY_HAND[task]


def test_an_estimate_measures_every_task() -> None:
    found = estimate(small_batches(paper_run()), TINY)
    assert [task.task for task in found] == ["obj", "att", "rel", "cap", "cnt", "vqa"]
    assert found[0].parameters == linear(32, 300) + linear(300, 30)
    # 1001 samples in batches of 8, 8, 4, 2, 4 and 4; 20 epochs, 7 of vqa
    assert [task.steps for task in found] == [2520, 2520, 5020, 10020, 5020, 1757]
    assert all(0 < task.step < 60 for task in found)
    assert found[1].hours == pytest.approx(found[1].step * 2520 / 3600)
    # weights of obj, and as much again three times: gradients, and two moments of Adam's
    weights = 16 * found[0].parameters
    # and what is kept for the way back: X (8 × 6 regions of 32 numbers), the vectors of 300, scores
    # of 30 classes; each at least once, and not often
    kept = 4 * 8 * 6 * (32 + 300 + 30)
    assert weights + kept <= found[0].memory < weights + 4 * kept
    assert found[-1].calls == ("rel", "obj", "att", "cnt", "cap")


def test_base_modules_call_nobody() -> None:
    found = estimate(small_batches(paper_run("independent")), TINY)
    assert all(task.calls == () for task in found)


def test_other_strategies_are_counted() -> None:
    run = paper_run("hard_sharing")
    more = Outline(64, 6, 1000, TINY.names, TINY.samples)
    # 32 more numbers of each region reach the trunk's first layer of 512
    assert count_parameters(run, more) - count_parameters(run, TINY) == 32 * 512


def test_estimating_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    count_parameters(paper_run("hard_sharing"), TINY)
    assert list(tmp_path.iterdir()) == []


def test_an_outline_is_that_of_the_data(tmp_path: Path) -> None:
    from benchmarks.stream import Stream

    given = {
        "name": "small",
        "world": {"name": "visual_genome", "path": str(make_prepared(tmp_path))},
        "tasks": ["obj", {"task": "cnt", "extra": "obj"}],
        "strategies": ["constant"],
        "seeds": [0],
    }
    outline = Outline.of(Stream.open(parse_stream(given), 0))
    assert (outline.region, outline.regions, outline.scenes) == (16, 6, 30)
    assert outline.samples == {"obj": ROWS["train"], "cnt": ROWS["train"] + 5}
    assert len(outline.names["objects"]) == 6


STREAM = """
name: large
world: {name: visual_genome, path: nowhere}
tasks: [obj, att]
budget: 50
strategies: [constant, {name: pmn, size: paper}, {name: hard_sharing, size: paper}]
seeds: [0, 1]
"""


def dry_run(stream: Path) -> str:
    given = ["run", str(stream), "--dry-run", "--device", "cpu"]
    result = CliRunner().invoke(main, given, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_dry_run_at_the_papers_sizes_says_what_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PMN_BENCH_DATA", raising=False)
    Path("large.yaml").write_text(STREAM)
    threads = torch.get_num_threads()
    try:
        output = dry_run(Path("large.yaml"))
    finally:
        torch.set_num_threads(threads)
    assert "6 runs" in output  # the list is there as ever
    assert "nowhere: no such folder" in output and "as they were published" in output
    [row] = [line.split() for line in output.splitlines() if line.strip().startswith("M_obj")]
    assert row[:3] == ["M_obj", "-", f"{BY_HAND['obj']:,}"]
    # 97,000 images in batches of 32, half of 20 epochs
    assert "30,320" in row
    assert "hard_sharing: " in output and "2 seeds: " in output


def test_an_ordinary_dry_run_only_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(STREAM.replace(", size: paper", ""))
    assert len(dry_run(Path("small.yaml")).splitlines()) == 7


def test_a_task_of_somebody_elses_has_no_estimate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("large.yaml").write_text(
        STREAM.replace("[obj, att]", '[obj, "pmn_cl.tasks.attributes:AttributeTask"]')
    )
    assert "no estimate: the shapes of pmn_cl.tasks.attributes:AttributeTask" in dry_run(
        Path("large.yaml")
    )


def test_hours_are_steps_times_seconds() -> None:
    assert TaskEstimate("obj", (), 1, 1, step=0.5, steps=14_400).hours == 2.0
