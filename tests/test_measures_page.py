"""docs/measures.md: its four lines give what stands beside them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pmn_cl.results import scores
from pmn_cl.results.measures import catalogue, continual, emergence
from pmn_cl.results.measures.continual import Moment
from pmn_cl.results.result import Epoch

PAGE = (Path(__file__).parent.parent / "docs" / "measures.md").read_text("utf-8")


def tables(section: str) -> list[list[list[str]]]:
    """The tables of a section, as cells without their titles."""
    text = PAGE.partition(f"## {section}")[2].partition("\n## ")[0]
    blocks = re.findall(r"(?:^\|.*\n)+", text, re.M)
    rows = [[re.split(r" *\| *", line.strip("| \n")) for line in b.splitlines()] for b in blocks]
    return [block[2:] for block in rows]


def number(cell: str) -> float | None:
    return None if cell == "–" else float(cell.replace("−", "-"))


def said(section: str) -> dict[str, float | None]:
    """What the last table says by measure: behind its last "=", else its first number."""
    found = {}
    for name, here, *_ in tables(section)[-1]:
        numbers = re.findall(r"= (−?\d[\d.]*)", here) or re.findall(r"−?\d+\.\d+", here)
        found[name] = number(numbers[-1]) if numbers else None
    return found


def test_the_score_matrix() -> None:
    first, _ = tables("Of the score matrix")
    matrix = [[number(cell) for cell in row[1:]] for row in first]
    sentence = PAGE.partition("Alone, the three come to ")[2].partition("\n\n")[0]
    values = [float(v) for v in re.findall(r"\d\.\d\d", sentence)]
    alone, at_once, nothing = values[:3], values[3:], [0.0] * 3
    found = {
        "normalised average": scores.final_average(matrix),
        "learning accuracy": scores.learning_accuracy(matrix),
        "forgetting": scores.forgetting(matrix),
        "forgetting, first − last": scores.forgetting_first_last(matrix),
        "forgetting (CLiMB)": scores.climb_forgetting(matrix, nothing),
        "backward transfer": scores.backward_transfer(matrix),
        "forward transfer": scores.forward_transfer(matrix, nothing),
        "transfer over scratch": scores.transfer_over_scratch(matrix, alone),
        "knowledge transfer (CLiMB)": scores.climb_knowledge_transfer(matrix, alone, nothing),
        "intransigence": scores.intransigence(matrix, at_once),
    }
    assert found == close(said("Of the score matrix"))


def test_learning_curves() -> None:
    points = ((10, 0.2), (20, 0.6), (40, 0.8))
    curve = [Epoch(step=step, loss=1.0, score=score) for step, score in points]
    step = emergence.first_step(emergence.points(curve), 0.5)
    assert step is not None
    found = {
        "learning curve": emergence.area(curve, 0.0, 1.0),
        "time to competence": 8 * step / 40,
    }
    assert found == close(said("Of learning curves"))


def test_moments() -> None:
    first, _ = tables("Inside tasks")
    moments = [Moment(int(p), int(s), [number(c) for c in row]) for p, s, *row in first]
    found = {
        "min-ACC": continual.minimum_accuracy(moments),
        "WC-ACC": continual.worst_case_accuracy(moments),
        "stability gap": continual.stability_gap(moments),
        "steps to recover": continual.steps_to_recover(moments),
        "windowed forgetting": continual.windowed_forgetting(moments),
        "windowed plasticity": continual.windowed_plasticity(moments),
        "average anytime": continual.average_anytime(moments),
    }
    assert found == close(said("Inside tasks"))


def close(values: dict[str, float | None]) -> Any:
    return {n: v if v is None else pytest.approx(v, abs=6e-4) for n, v in values.items()}


def test_every_measure_is_on_the_page() -> None:
    sections = ("Of the score matrix", "Of learning curves", "Inside tasks")
    there = [name for section in sections for name in said(section)]
    assert there == [measure.name for measure in catalogue.CATALOGUE]
