"""The sections of the report, each a function from results to a `Section`, in the page's order.

A new one is a file here and a line below.
"""

from __future__ import annotations

from collections.abc import Callable

from reports.blocks import Section
from reports.folder import Gathered
from reports.sections.aggregates import aggregates
from reports.sections.card import card, reproduce, runs
from reports.sections.claims import claims
from reports.sections.cost import cost
from reports.sections.curves import curves
from reports.sections.faithfulness import faithfulness
from reports.sections.families import families
from reports.sections.forgetting import forgetting
from reports.sections.gates import gates
from reports.sections.graph import graph
from reports.sections.inside import inside
from reports.sections.ladder import ladder
from reports.sections.low_data import low_data
from reports.sections.matrices import matrices
from reports.sections.measures import measures
from reports.sections.novel import novel
from reports.sections.summary import summary

# Those of a document, which is to be read from its beginning to its end.
DOCUMENT: tuple[Callable[[Gathered], Section], ...] = (
    *(summary, aggregates, claims, ladder, low_data, forgetting, families, cost, card),
)
SECTIONS: tuple[Callable[[Gathered], Section], ...] = (
    summary,
    aggregates,
    measures,
    matrices,
    forgetting,
    inside,
    curves,
    families,
    low_data,
    ladder,
    cost,
    novel,
    claims,
    gates,
    faithfulness,
    graph,
    card,
    runs,
    reproduce,
)
