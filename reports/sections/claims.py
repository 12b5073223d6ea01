"""The paper's claims, each with what came of it here."""

from __future__ import annotations

from pmn_cl.claims.claims import CLAIMS
from pmn_cl.claims.evidence import Evidence
from pmn_cl.claims.rule import RULE, CheckedClaim, check_claims
from pmn_cl.claims.table import COLUMNS, basis_of, heading, parts, row
from reports.blocks import Block, Commands, Missing, Row, Section, Table, Text
from reports.folder import Gathered, largest

_SIGNS = {
    "holds": "✓ holds",
    "holds before correction only": "(✓) before correction only",
    "practically the same": "= practically the same",
    "does not hold": "✗ does not hold",
    "not learned here": "– not learned here",
    "not enough data": "? too few data",
}
# A page is narrower than the table: what came of a claim stands beside it.
_FIRST = ["claim", "verdict", "note"]
_SHOWN = [*_FIRST, *(title for title in COLUMNS if title not in _FIRST)]


def claims(found: Gathered) -> Section:
    """Judge every claim on the results that have most in common."""
    title = "The paper's claims"
    some = largest(found.done, lambda result: (result.data, result.budget))
    if not some:
        missing = Missing("No run is completed yet.", found.commands("run", "ablate", "sweep"))
        return Section("claims", title, [missing])
    evidence = Evidence(some, found.grades)
    judged = check_claims(evidence, CLAIMS)
    blocks: list[Block] = [Text(f"{title}.") for title, _ in parts(judged)]
    for title_of_part, part in parts(judged):
        blocks.append(
            Table(f"Claims: {title_of_part.partition(':')[0]}", _SHOWN, [_row(one) for one in part])
        )
    blocks.append(Text(" ".join(RULE.split())))
    basis = heading(basis_of(some, evidence, found.frozen))
    blocks.append(Text("Judged on " + "; ".join(" ".join(line.split()) for line in basis) + "."))
    made = [(command, "") for command in found.commands("run", "ablate", "sweep")[:-1]]
    blocks.append(Commands([*made, (f"pmn-bench claims {found.shown_folder}", "the same as text")]))
    return Section("claims", title, blocks)


def _row(judged: CheckedClaim) -> Row:
    cells = dict(zip(COLUMNS, row(judged), strict=True))
    cells["verdict"] = _SIGNS[cells["verdict"]]
    return Row([cells[title] for title in _SHOWN])
