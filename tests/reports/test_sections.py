"""What each section says of made-up results whose numbers can be followed by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from made_folder import TASKS, ablated, made, measured, plain, rung, swept, trouble

from reports.blocks import Block, Commands, Figure, Missing, Section, Table, Text
from reports.folder import Gathered
from reports.sections import SECTIONS
from reports.sections.aggregates import aggregates
from reports.sections.card import card, reproduce, runs
from reports.sections.claims import claims
from reports.sections.cost import cost, front
from reports.sections.curves import curves
from reports.sections.faithfulness import faithfulness
from reports.sections.families import families
from reports.sections.forgetting import forgetting
from reports.sections.gates import gates
from reports.sections.graph import call_lists, graph
from reports.sections.inside import inside
from reports.sections.ladder import ladder
from reports.sections.low_data import low_data
from reports.sections.matrices import matrices
from reports.sections.measures import measures
from reports.sections.novel import novel
from reports.sections.summary import summary

HERE = Path("runs/claims")
EVERYTHING = Gathered(HERE, [*plain(), *swept(), *ablated(), *trouble()])
NOTHING = Gathered(HERE, trouble())


def figures(section: Section) -> list[Figure]:
    return [block for block in section.blocks if isinstance(block, Figure)]


def row(table: Table, *heads: str) -> list[str]:
    """The cells behind those that say what they are of."""
    [found] = [row.cells for row in table.rows if list(row.cells[: len(heads)]) == list(heads)]
    return list(found[len(heads) :])


def said(blocks: Sequence[Block]) -> str:
    return " ".join(block.text for block in blocks if isinstance(block, Text | Missing))


SCORES = (("pmn", 0.60), ("pnn", 0.61), ("ewc", 0.51))


def test_the_summary_says_the_best_first_and_counts_what_is_there() -> None:
    section = summary(EVERYTHING)
    lead, *_ = section.blocks
    assert isinstance(lead, Text) and lead.lead
    assert lead.text.startswith("vqa at the end: best hard_sharing_joint 0.710, pmn 0.610")
    assert "35 results (33 completed, 1 failed, 1 interrupted); seeds 0, 1, 2." in said(
        section.blocks
    )
    [table] = [block for block in section.blocks if isinstance(block, Table)]
    assert table.columns[2] == "normalised average" and "average" not in table.columns
    assert row(table, "constant answer (floor)")[1:3] == ["", "0.100"]
    # Seeds are 0.60, 0.61, 0.62: half of the interval is 4.303 · 0.01 / √3.
    assert row(table, "pmn")[0] == "3" and row(table, "pmn")[2] == "0.610 ± 0.025"
    # (0.61 - 0.1) / (0.71 - 0.1) on average over seeds, and 0 for forgetting.
    assert row(table, "pmn")[1].startswith("0.836") and row(table, "pmn")[8] == "0.000 ± 0.000"
    assert [line.strategy for line in table.rows] == [None, 0, 1, 2, 3]


def test_the_best_of_a_column_is_marked_and_what_ties_with_it() -> None:
    runs = [made(name, seed, score + seed / 100) for name, score in SCORES for seed in (0, 1, 2)]
    [table] = [b for b in summary(Gathered(HERE, runs)).blocks if isinstance(b, Table)]
    marks = {line.cells[0]: set(line.marks.values()) for line in table.rows}
    # 0.62 ± 0.025 on average over seeds; 0.61 is within that of it, 0.52 is not.
    assert marks["pnn"] == {"best"} and marks["pmn"] == {"tie"} and marks["ewc"] == set()
    [alone] = [
        b for b in summary(Gathered(HERE, runs[::3])).blocks if isinstance(b, Table)
    ]  # one seed has no interval, and no ties
    assert [set(line.marks.values()) for line in alone.rows if line.cells[0] == "pmn"] == [set()]


def test_aggregates_by_hand() -> None:
    section = aggregates(EVERYTHING)
    [table] = [block for block in section.blocks if isinstance(block, Table)]
    assert table.columns == ["strategy", "seeds", "normalised IQM", "optimality gap", "P(better)"]
    # All tasks of a seed have the same score; (0.61 - 0.1) / (0.71 - 0.1) in the middle.
    pmn, hard = row(table, "pmn"), row(table, "hard_sharing")
    assert pmn[1].startswith("0.836 [") and pmn[2].startswith("0.164 [") and pmn[3] == ""
    assert hard[3] == "0.000"
    [figure] = figures(section)
    assert row(figure.data, "pmn") == ["1.00", "1.00", "1.00", "1.00", "0.00"]
    assert figure.panels[0].body.count('class="line ') == 4
    alone = aggregates(Gathered(HERE, [r for r in plain() if r.strategy == "pmn"]))
    [missing] = alone.blocks
    assert isinstance(missing, Missing) and "run executor and joint training" in missing.text


def test_the_ceiling_is_last_in_the_summary_and_a_gap_where_it_has_no_score() -> None:
    ceiling = made("executor", 0, 0.9)
    cap = TASKS.index("cap")
    matrix = [[v if j != cap else None for j, v in enumerate(r)] for r in ceiling.matrix()]
    ceiling = ceiling.model_copy(update={"scores": {"test": matrix, "novel": matrix}})
    found = Gathered(Path("runs"), [ceiling, *plain()])
    section = summary(found)
    assert "programs on a wide probe 0.900" in said(section.blocks)
    assert "best hard_sharing_joint" in said(section.blocks)
    [table] = [block for block in section.blocks if isinstance(block, Table)]
    assert table.rows[-1].cells[0] == "executor (ceiling)"
    assert row(table, "executor (ceiling)")[2 + cap] == ""
    for make in SECTIONS:
        make(found)  # all of them live with the gap


def test_a_run_of_the_constant_answer_is_the_floor_of_all_sections() -> None:
    found = Gathered(HERE, [*plain(), *(made("constant", seed, 0.1) for seed in (0, 1, 2))])
    [table] = [block for block in summary(found).blocks if isinstance(block, Table)]
    first = table.rows[0].cells[0]
    assert first == "constant (floor)" and "constant answer (floor)" not in str(table.rows)
    for make in SECTIONS:
        make(found)


def test_heat_maps_share_one_scale() -> None:
    [figure] = figures(matrices(EVERYTHING))
    assert [panel.strategy for panel in figure.panels] == [0, 1, 2, 3]
    pmn, hard, alone, joint = figure.panels
    assert joint.body.count('class="h9"') == 6 and joint.body.count('class="none"') == 30
    assert pmn.body.count('class="h8"') == 21  # 0.61 of 0.71 at most
    assert alone.body.count('class="h5"') == 21  # 0.41 of 0.71
    assert hard.body.count('class="h3"') == 1  # 0.26, all that is left of obj
    assert "vqa 0.510" in hard.description
    assert row(figure.data, "hard_sharing", "6", "vqa")[0] == "0.260 ± 0.025"


def test_forgetting_by_hand() -> None:
    section = forgetting(EVERYTHING)
    measures, along = figures(section)
    # Task j loses 0.05 with each of the 5 - j later ones: 0.15 on average.
    assert row(measures.data, "hard_sharing")[:3] == [
        *("0.150 ± 0.000", "-0.150 ± 0.000", "0.100 ± 0.000")
    ]
    assert row(measures.data, "hard_sharing_joint") == ["", "", "", ""]
    [table] = [block for block in section.blocks if isinstance(block, Table)]
    lost = [f"{0.05 * later:.3f} ± 0.000" for later in (5, 4, 3, 2, 1)]
    assert row(table, "hard_sharing") == lost
    assert [panel.title for panel in measures.panels] == [
        *("forgetting", "bwt", "transfer over scratch")
    ]
    assert [panel.title for panel in along.panels] == TASKS
    assert row(along.data, "obj", "hard_sharing", "vqa")[0] == "0.260"


def test_curves_are_means_over_seeds_with_their_interval() -> None:
    [figure] = figures(curves(EVERYTHING))
    assert len(figure.panels) == 6
    # 0.6 · 2/3 + 0.00, 0.01, 0.02
    assert row(figure.data, "obj", "pmn", "20") == ["0.410", "0.385", "0.435"]
    assert all(row.cells[1] != "hard_sharing_joint" for row in figure.data.rows)


def test_scores_by_family_stand_on_their_floor() -> None:
    section = families(EVERYTHING)
    [table] = [block for block in section.blocks if isinstance(block, Table)]
    assert table.columns == ["strategy", "exist", "same"]
    assert [line.strategy for line in table.rows] == [None, 0, 1, 2, 3]
    assert row(table, "floor: best constant for each") == ["0.400", "0.400"]
    assert row(table, "pmn") == ["0.600 ± 0.000", "0.500 ± 0.000"]
    # Of independent, 0.4 · n / 3 + seed / 100 with n = 3: at most 0.42, and 0.1 less for "same".
    text = said(section.blocks)
    assert "independent, seed 2: vqa family 'exist' is at its floor (0.42; constant 0.40)" in text
    assert "attention on what it asks about 0.20, uniform 0.25" in text  # of "same"
    assert "pmn, seed" not in text


def test_families_attention_and_gates_while_learning_are_means_over_seeds() -> None:
    [figure] = figures(families(EVERYTHING))
    shown = [panel.title.partition(": ") for panel in figure.panels]
    assert [(name, what) for name, _, what in shown] == [
        *(("pmn", "score"), ("pmn", "attention"), ("pmn", "gates")),
        *(("hard_sharing", "score"), ("hard_sharing", "attention")),
        *(("independent", "score"), ("independent", "attention")),
    ]
    assert [panel.strategy for panel in figure.panels] == [0, 0, 0, 1, 1, 2, 2]
    # 0.6 · 2/3 + 0.00, 0.01, 0.02, less 0.1
    assert row(figure.data, "pmn", "score", "same", "20") == ["0.310"]
    assert row(figure.data, "pmn", "gates", "rel", "30") == ["0.400"]
    score = figure.panels[0]
    assert score.body.count("<rect") == 2 * 4  # two families; the floor, and three validations
    assert score.body.count('class="h0"') == 2 + 2 * 2  # floors; 0.21, 0.41, 0.11, 0.31
    assert score.body.count('class="h3"') == 1  # (0.61 - 0.4) / 0.6
    assert score.body.count('class="h1"') == 1  # (0.51 - 0.4) / 0.6


def test_older_results_have_no_families() -> None:
    [missing] = families(Gathered(HERE, [made("pmn", 0, 0.5, secondary={})])).blocks
    assert isinstance(missing, Missing) and "older" in missing.text


def test_long_curves_keep_their_last_point() -> None:
    epochs = [{"step": n, "loss": 1.0, "score": n / 1000} for n in range(1, 1000)]
    found = Gathered(HERE, [made("pmn", 0, 0.5, curves={"obj": epochs})])
    [figure] = figures(curves(found))
    steps = [int(row.cells[2]) for row in figure.data.rows]
    assert len(steps) <= 61 and steps[0] == 1 and steps[-1] == 999


def test_the_low_data_gain_stands_beside_the_papers() -> None:
    gain, scores = figures(low_data(EVERYTHING))
    got = row(gain.data, "test", "independent", "25")
    assert got[0] == "+0.0200" and got[3] == "3" and got[-1] == "+0.0266"
    assert row(gain.data, "novel", "independent", "100")[-1] == "+0.0204"
    assert [look.label for look, _ in gain.key] == ["over independent", "the paper"]
    assert row(scores.data, "test", "pmn", "25") == ["0.330 ± 0.025"]


def test_sweeps_of_other_tasks_are_figures_of_their_own_without_the_papers_curve() -> None:
    changed = [
        result.model_copy(update={"tasks": ["obj", "rel"], "key": f"r{n}"})
        for n, result in enumerate(swept())
    ]
    section = low_data(Gathered(HERE, [*swept(), *changed]))
    titles = [figure.caption for figure in figures(section)]
    assert [title.split(" on ")[1].split()[0] for title in titles] == ["vqa", "vqa", "rel", "rel"]
    assert [look.label for look, _ in figures(section)[2].key] == ["over independent"]


def test_the_ladder_stands_beside_the_papers() -> None:
    section = ladder(EVERYTHING)
    [figure] = figures(section)
    assert figure.caption == "M_vqa (Table 3)"
    got = row(figure.data, "M_vqa2")
    assert got[0] == "0.310 ± 0.025" and got[2] == "+0.100 ± 0.000"
    assert got[-2:] == ["63.64", "+1.59"]  # 63.64 - 62.05
    assert [panel.title for panel in figure.panels] == [
        *("M_vqa (Table 3): here", "M_vqa (Table 3): the paper")
    ]
    assert "--only M_vqa0 --only M_vqa1 --only M_vqa2" in figure.commands[0]
    assert "M_rel (Table 1)" in said(section.blocks)  # which has not been run


def test_both_of_the_papers_numbers_for_relations_are_shown() -> None:
    rels = [made("pmn", 0, 0.3 + n / 10, **rung(f"M_rel{n}"), tasks=["rel"]) for n in range(2)]
    [figure] = figures(ladder(Gathered(HERE, rels)))
    assert row(figure.data, "M_rel1")[-2:] == ["53.4, 57.8", "+2.40, +1.90"]
    assert figure.panels[1].body.count('class="hollow') == 2


def test_cost_stands_against_the_normalised_average() -> None:
    [figure] = figures(cost(EVERYTHING))
    got = row(figure.data, "pmn")
    # Six experiences with 2 CPU seconds and 1 second of learning each, 7 parameters.
    assert got[0].startswith("0.836") and got[1:7] == ["7", "", "", "12", "6", "1"]
    assert len(figure.panels) == 2
    alone = Gathered(HERE, [result for result in plain() if result.strategy == "pmn"])
    assert figures(cost(alone))[0].data.columns[1] == "average"


def test_operations_and_bytes_have_panels_where_they_were_counted() -> None:
    kept = {"weights": [10**6] * 6, "method": [2 * 10**6] * 6}
    work = {"learned": [2e9] * 6, "answer": {}, "uncounted": {}, "bytes": kept}
    some = [made(name, 0, 0.5 + n / 10, work=work) for n, name in enumerate(("pmn", "pnn"))]
    [figure] = figures(cost(Gathered(HERE, some)))
    assert [panel.title.split(" by ")[1] for panel in figure.panels] == [
        *("parameters", "operations to learn", "bytes kept", "CPU seconds")
    ]
    assert row(figure.data, "pmn")[2:4] == ["12", "3"]
    # As dear in everything, and worse.
    assert row(figure.data, "pmn")[-1] == ""
    assert row(figure.data, "pnn")[-1].startswith("parameters, operations to learn, bytes kept")


def test_a_front_by_hand() -> None:
    heights = {"cheap": 0.2, "dear": 0.9, "dearer": 0.8, "as good": 0.9, "twin": 0.2}
    amounts = {"cheap": 1.0, "dear": 5.0, "dearer": 6.0, "as good": 7.0, "twin": 1.0}
    assert front(heights, amounts) == ["cheap", "dear", "twin"]
    assert front({**heights, "unknown": 1.0}, amounts) == ["cheap", "dear", "twin"]


def test_when_learners_were_half_way_is_said_by_task_and_seed() -> None:
    [table] = [block for block in curves(EVERYTHING).blocks if isinstance(block, Table)]
    assert table.caption == "Time to competence"
    [vqa] = [line.cells for line in table.rows if line.cells[:2] == ["vqa", "all"]]
    # Half of the way from 0.1 to joint training's 0.7. Curves are a third, two thirds and all of
    # 0.6, plus a hundredth for each seed, at steps 10, 20, 30, which took 1 s.
    assert vqa[list(table.columns).index("pmn")].split(", ")[1] == "20 (1 s)"
    alone = curves(Gathered(HERE, [r for r in plain() if r.strategy == "pmn"]))
    assert not any(isinstance(block, Table) for block in alone.blocks)


def test_measures_have_a_line_each() -> None:
    section = measures(EVERYTHING)
    [table] = [block for block in section.blocks if isinstance(block, Table)]
    assert table.columns[:2] == ["measure", "what it is"]
    [average] = [line.cells for line in table.rows if line.cells[0] == "normalised average (↑)"]
    assert average[list(table.columns).index("pmn")] == "0.836 ± 0.007"
    [missing] = measures(Gathered(HERE, [r for r in plain() if r.strategy == "pmn"])).blocks
    assert isinstance(missing, Missing) and "executor" in missing.text


def test_what_happens_inside_tasks_is_drawn_by_the_steps_of_the_run() -> None:
    tasks = ["obj", "att"]
    inside_tasks = {
        **{"phase": [0, 1], "step": [4, 1], "cpu_seconds": [0.1, 0.2]},
        "scores": [[0.25, None], [0.5, 0.125]],
    }
    curves = {task: [{"step": 40, "loss": 1.0, "score": 0.5}] for task in tasks}
    splits = {split: [[0.75, None], [0.5, 0.625]] for split in ("test", "probe")}
    constant = {split: [0.1, 0.1] for split in splits}
    shape = {"tasks": tasks, "scores": splits, "constant": constant, "curves": curves}
    one = made(
        "hard_sharing", 0, 0.5, **shape, secondary={}, inside=inside_tasks, metrics=["m"] * 2
    )
    [figure] = figures(inside(Gathered(HERE, [one])))
    assert [panel.title for panel in figure.panels] == tasks
    found = {
        task: [line.cells[2:4] for line in figure.data.rows if line.cells[0] == task]
        for task in tasks
    }
    assert found["obj"] == [["4", "0.250"], ["40", "0.750"], ["41", "0.500"], ["80", "0.500"]]
    assert found["att"] == [["41", "0.125"], ["80", "0.625"]]
    [missing] = inside(EVERYTHING).blocks
    assert isinstance(missing, Missing) and "evaluate_every" in missing.text


def test_novel_is_compared_with_test_seed_by_seed() -> None:
    [figure] = figures(novel(EVERYTHING))
    assert row(figure.data, "vqa", "accuracy", "pmn")[:4] == [
        *("0.610 ± 0.025", "0.510 ± 0.025", "-0.100 ± 0.000", "3")
    ]
    assert row(figure.data, "vqa", "yes/no", "pmn")[0] == "0.600 ± 0.000"
    assert not any("gate" in row.cells[1] for row in figure.data.rows)


def test_objects_are_compared_without_background() -> None:
    told = {"obj": {"accuracy": 0.5, "top1_objects": 0.25}}
    both = {split: [{}] * 5 + [told] for split in ("test", "novel")}
    [figure] = figures(novel(Gathered(HERE, [made("pmn", 0, 0.5, secondary=both)])))
    assert figure.panels[0].title == "obj (top1_objects)"
    assert "pmn 0.250 and 0.250" in figure.panels[0].description


def test_claims_are_those_of_the_claims_command_with_their_status() -> None:
    section = claims(EVERYTHING)
    test, other = [block for block in section.blocks if isinstance(block, Table)]
    assert (test.caption, other.caption) == (
        "Claims: test, all claims",
        "Claims: novel, all claims",
    )
    assert list(test.columns[:4]) == ["claim", "verdict", "note", "in the paper"]
    verdict = test.columns.index("verdict") - 1
    assert row(test, "PMN does not forget: no score ever changes")[verdict] == "✓ holds"
    assert row(test, "M_obj and M_att help: M_vqa1 over M_vqa0")[verdict] == "✓ holds"
    assert row(test, "M_rel beats its base")[verdict] == "? too few data"
    rung = dict(
        zip(test.columns[1:], row(test, "M_rel helps further: M_vqa2 over M_vqa1"), strict=True)
    )
    # Each rung is 0.05 above the one below, in all three seeds.
    assert (rung["ours"], rung["against"]) == ("0.310 ± 0.025", "0.260 ± 0.025")
    assert (rung["difference"], rung["n"]) == ("+0.050 ± 0.000", "3")
    assert "0355a14" in said(section.blocks)


def test_gates_by_kind_of_question() -> None:
    [figure] = figures(gates(EVERYTHING))
    assert row(figure.data, "pmn", "all questions", "Ω") == ["0.600 ± 0.000"]
    assert row(figure.data, "pmn", "yes/no", "rel") == ["0.200 ± 0.000"]
    [panel] = figure.panels
    assert "all questions: most Ω, 0.60" in panel.description and panel.strategy == 0


def test_faithfulness_of_pmn_stands_beside_its_baselines_and_chance() -> None:
    runs_of = [r for r in plain() if r.strategy in ("pmn", "independent")]
    records = {
        r.key: measured(r, attention_mass=0.6 + r.seed / 100, asked_box=0.5, without_Ω=0.1)
        if r.strategy == "pmn"
        else measured(r, attention_mass=0.5 + r.seed / 100)
        for r in reversed(runs_of)
    }
    section = faithfulness(Gathered(HERE, plain(), faithfulness=records))
    whole, parts = [block for block in section.blocks if isinstance(block, Table)]
    assert whole.caption == "On 4,000 questions of test"
    assert list(whole.columns) == [
        *("measure", "chance", "pmn", "independent", "pmn − independent", "seeds", "p")
    ]
    # Seeds are a hundredth apart: half of the interval is 4.303 · 0.01 / √3; pairs, all 0.1 apart.
    mass = row(whole, "attention mass")
    assert mass[:3] == ["0.250", "0.610 ± 0.025", "0.510 ± 0.025"]
    assert mass[3:5] == ["+0.100 ± 0.000", "3"]
    assert row(whole, "asked box") == ["", "0.500 ± 0.000", "", "", "", ""]
    assert [line.cells[0] for line in parts.rows] == ["without Ω"]
    [commands] = [block for block in section.blocks if isinstance(block, Commands)]
    assert commands.lines[0][0] == "pmn-bench faithfulness runs/claims --split test"


def test_faithfulness_is_compared_where_runs_can_be_and_on_every_split() -> None:
    ours, variant = made("pmn", 0, 0.5), made("pmn", 0, 0.5, variant="M_vqa5 top-1")
    other = made("independent", 0, 0.5, budget=10)
    records = {r.key: measured(r, ("test", "novel"), pointing=0.5) for r in (other, variant, ours)}
    section = faithfulness(Gathered(HERE, [other, variant, ours], faithfulness=records))
    tables = [block for block in section.blocks if isinstance(block, Table)]
    assert [table.caption.split()[-1] for table in tables] == ["test", "novel"]
    assert list(tables[0].columns[2:5]) == ["pmn", "pmn (M_vqa5 top-1)", "pmn − pmn (M_vqa5 top-1)"]


def test_the_graph_has_the_call_lists_and_their_levels() -> None:
    [figure] = figures(graph(EVERYTHING))
    assert row(figure.data, "M_obj") == ["0", "terminal", ""]
    assert row(figure.data, "M_cnt") == ["2", "compositional", "M_obj, M_att, M_rel"]
    assert row(figure.data, "M_vqa")[0] == "3"
    [panel] = figure.panels
    assert panel.body.count('class="call"') == panel.body.count('class="answer"') == 12
    assert panel.body.count('class="terminal"') == 2


def test_call_lists_are_those_of_the_record_as_far_as_their_tasks_are_there() -> None:
    calls = {"obj": [], "rel": ["obj", "att"], "cnt": []}
    found = call_lists(made("pmn", 0, 0.5, tasks=list(calls), calls=calls))
    assert found == {"obj": [], "rel": ["obj"], "cnt": []}


def test_the_card_has_digests_versions_seeds_and_fairness() -> None:
    section = card(EVERYTHING)
    facts = dict(next(b.facts for b in section.blocks if b.kind == "facts"))
    assert facts["data (digest)"] == "d" and facts["seeds"] == "0, 1, 2"
    assert facts["torch"] == "2.13.0" and facts["code"] == "0355a14"
    tasks, fairness = [block for block in section.blocks if isinstance(block, Table)]
    assert row(tasks, "vqa") == ["accuracy", "100", "50", "", "0.100", "0.050"]
    assert row(fairness, "hard_sharing_joint")[1] == "all tasks at once"
    assert row(fairness, "pmn")[1] == "one task at a time"


def test_every_run_is_listed_with_what_ended_it() -> None:
    [table] = [block for block in runs(EVERYTHING).blocks if isinstance(block, Table)]
    assert len(table.rows) == 35
    assert row(table, "pnn--100-0")[-1] == "ValueError: no <script>alert(1)</script>"
    assert row(table, "pmn--100-0")[4:6] == ["completed", "0.600"]


def test_how_to_reproduce_it() -> None:
    [block] = [block for block in reproduce(EVERYTHING).blocks if block.kind == "commands"]
    typed = [command for command, _ in block.lines]
    assert typed[0] == "pmn-bench run claims.yaml --out runs/claims"
    assert "pmn-bench verify runs/claims/pmn--100-0" in typed


@pytest.mark.parametrize(
    ("build", "command"),
    [
        (summary, "run"),
        (matrices, "run"),
        (forgetting, "run"),
        (curves, "run"),
        (families, "run"),
        (low_data, "sweep"),
        (ladder, "ablate"),
        (cost, "run"),
        (claims, "ablate"),
        (gates, "run"),
        (faithfulness, "faithfulness"),
        (graph, "run"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_what_is_missing_says_which_command_makes_it(
    build: Callable[[Gathered], Section], command: str
) -> None:
    [missing] = [block for block in build(NOTHING).blocks if isinstance(block, Missing)]
    assert any(line.startswith(f"pmn-bench {command} ") for line in missing.commands)


def test_every_figure_has_words_numbers_and_commands() -> None:
    built = [build(EVERYTHING) for build in SECTIONS]
    found = [figure for section in built for figure in figures(section)]
    assert len(found) >= 10
    for figure in found:
        assert figure.panels and figure.data.rows and figure.caption
        assert figure.commands[-1] == "pmn-bench report runs/claims"
        assert all(panel.title and len(panel.description) > 20 for panel in figure.panels)
        assert all(len(row.cells) == len(figure.data.columns) for row in figure.data.rows)
