from __future__ import annotations

import numpy as np
import torch

from pmn_cl.data.loader import Batches, Scenes
from pmn_cl.data.samples import Samples
from pmn_cl.data.store import Store
from pmn_cl.modules.runtime.network import ModuleNetwork
from pmn_cl.modules.sizes import DEPARTURES, SIZES, Gates, WorldShape
from pmn_cl.modules.task_module import ModulePlan
from pmn_cl.modules.telling import tell
from pmn_cl.registry import MODULES, load
from pmn_cl.tasks.answers import AnswerTask

CALLS = {
    **{"obj": (), "att": (), "rel": ("obj", "att"), "cap": ("obj", "att")},
    **{"cnt": ("obj", "att", "rel"), "vqa": ("rel", "obj", "att", "cnt", "cap")},
}


def told(digits: Store, depth: int = 0) -> tuple[list[str], str]:
    plan = ModulePlan(WorldShape(128, digits.names), SIZES["small"], Gates(), DEPARTURES["small"])
    torch.manual_seed(0)
    network = ModuleNetwork()
    for task, calls in CALLS.items():
        network.add(task, load(MODULES[task])(plan, {name: network[name] for name in calls}))
    samples = Samples.whole(digits, "test", AnswerTask())
    relational = int(np.flatnonzero(samples.columns["ask_relation"] >= 0)[0])
    x, _ = Batches(samples, Scenes(digits, "test"))[torch.tensor([relational])]
    words = [digits.names["question words"][w] for w in x["question"][0].tolist() if w]
    return tell(network, x, "vqa", digits.names, depth=depth).splitlines(), " ".join(words)


def test_a_relational_question_is_told_from_the_question_to_the_answer(digits: Store) -> None:
    lines, words = told(digits)
    assert lines[0] == f"question: {words}?"
    assert lines[-1].startswith("answer: ") and lines[-1].count(",") == 2  # and two runners-up
    asked = [line.split(": ", 1)[1].split(" (")[0] for line in lines if ". step 1: M_vqa" in line]
    # The order of the paper's call list.
    assert asked == [
        f"M_vqa asks {name}" for name in ("Ω", "M_rel", "M_obj", "M_att", "Δ", "M_cnt", "M_cap")
    ]


def test_calls_are_numbered_in_the_order_of_asking_and_indented_by_depth(digits: Store) -> None:
    calls = [line for line in told(digits, depth=1)[0] if ". step" in line]
    numbers = [int(line.split(".")[0]) for line in calls]
    assert numbers == list(range(1, len(calls) + 1))
    of_counting = [line for line in calls if "M_cnt asks M_rel" in line]
    assert of_counting and all(line.startswith("  ") for line in of_counting)


def test_a_relation_is_asked_about_a_box_and_answered_with_one(digits: Store) -> None:
    [line] = [text for text in told(digits)[0] if "step 1: M_vqa asks M_rel" in text]
    query, answer = line.split(" → ")
    assert "box " in query and "box " in answer
    assert any(f", {relation} (" in query for relation in digits.names["relations"])
