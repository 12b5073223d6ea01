"""One rule for every claim, applied to values for each seed. No torch here.

A claim says that one value is above another: a module above its base, the gain at 5% above that
at 1%. Values are paired by seed (same world, same split, same fraction). The rule is `RULE`; the
claims are in `claims`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

from pmn_cl.claims.evidence import Evidence, Measure
from pmn_cl.errors import UserError, did_you_mean
from pmn_cl.results.result import PROBE, Result
from pmn_cl.results.statistics import Interval, Paired, holm, interval, paired, seeds_needed

RULE = """\
A claim holds where the 95% interval (Student's t) of the difference, paired by seed, lies above 0;
a primary claim, named before any of the runs, holds before correction only where Holm's p,
corrected over the primary claims of the split, is above 0.05; there a difference the other way or
without data has p = 1, and one of several the largest of theirs. All others are secondary, and
their p is not corrected; where none was named, p is corrected over all claims. Two are practically
the same where the interval includes 0 and lies within 1 point (0.01) of it. Else the claim does not
hold: "within chance" says that the interval includes 0, and how many seeds would show a difference
as large, before correction, in 80% of tries; "the other way" says that it lies below. Where both
sides are within 1 point of the constant answer, or below it, nothing was learned that could be
compared. With fewer than 3 common seeds (n) there is not enough data. A claim of several
differences holds where each does; the weakest is shown. "No forgetting" holds where no score
changed in any run, and one that did is enough against it. p is of the paired t-test. Normalised
averages count the constant answer as 0, and as 1 the executor, or joint training on a task that has
none. Grades are paired by judge."""

NEEDED = 3  # seeds: fewer say nothing about chance
POINT = 0.01  # of a score or grade: differences that surely stay below are none that matters
SPLITS = ("test", "novel")

Verdict = Literal[
    "holds",
    "holds before correction only",
    "practically the same",
    "does not hold",
    "not learned here",
    "not enough data",
]
FAILED: tuple[Verdict, ...] = ("does not hold", "practically the same", "not learned here")
_COMPARED: tuple[Verdict, ...] = ("holds", "does not hold", "practically the same")

# --- the rule ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding:
    """What came of a check on one split."""

    verdict: Verdict
    note: str
    shown: str  # what the numbers are of
    higher: Interval | None = None  # what should be above
    lower: Interval | None = None  # and what below
    difference: Paired | None = None
    holm: float | None = None  # the p-value, corrected over the claims that it is corrected over
    parts: tuple[Finding, ...] = ()  # where there are several
    untested: bool = False  # decided without a test


Check: TypeAlias = Callable[[Evidence, str], Finding]


def above(higher: Measure, lower: Measure) -> Check:
    """Check that one value is above another, seed by seed."""

    def check(evidence: Evidence, split: str) -> Finding:
        ours, theirs = higher.values(evidence, split), lower.values(evidence, split)
        shown = f"{higher.label} > {lower.label}"
        pair = paired(ours, theirs)
        common = sorted(ours.keys() & theirs.keys())
        sides = [
            interval([side[seed] for seed in common]) if common else None for side in (ours, theirs)
        ]
        missing = [side for side, some in ((higher, ours), (lower, theirs)) if not some]
        verdict, note = _verdict(pair)
        floors = [side.floor(evidence, split) for side in (higher, lower) if side.floor]
        if verdict in _COMPARED and _at_floor([s.mean for s in sides if s], floors):
            verdict, note = "not learned here", f"constant answer {floors[0]:.3f}"
        if missing:
            note = missing[0].absent or f"nothing of {', '.join(side.label for side in missing)}"
        return Finding(verdict, note, shown, sides[0], sides[1], pair)

    return check


def _at_floor(means: Sequence[float], floors: Sequence[float | None]) -> bool:
    """Whether both sides have a floor, and neither is more than a point above its own."""
    pairs = list(zip(means, floors, strict=False))
    return len(pairs) == 2 and all(f is not None and m <= f + POINT for m, f in pairs)


def _verdict(pair: Paired | None) -> tuple[Verdict, str]:
    """Apply the rule to one difference; say in a word or two why."""
    if pair is None or pair.seeds < NEEDED:
        return "not enough data", f"{pair.seeds if pair else 0} in common, {NEEDED} needed"
    _, low, high = pair.difference
    assert low is not None  # there are several seeds
    assert high is not None
    if low > 0:
        return "holds", ""
    if high < 0:
        return "does not hold", "the other way"
    if max(-low, high) <= POINT:
        return "practically the same", ""
    if not pair.difference.mean:
        return "does not hold", "within chance"
    what = "it" if pair.difference.mean > 0 else "the opposite"
    return "does not hold", f"within chance; {seeds_needed(pair) or 'over 1,000'} would show {what}"


def every(*checks: Check) -> Check:
    """Check that each of several differences is there; the weakest stands for them."""

    def check(evidence: Evidence, split: str) -> Finding:
        parts = tuple(sorted((part(evidence, split) for part in checks), key=_strength))
        weakest = parts[0]
        verdict, note = weakest.verdict, f"least: {weakest.shown}"
        failed = [part.shown for part in parts if part.verdict in FAILED]
        if failed:
            unlearned = all(p.verdict == "not learned here" for p in parts if p.verdict in FAILED)
            verdict = "not learned here" if unlearned else "does not hold"
            note = f"not: {'; '.join(failed)}"
        elif verdict == "not enough data":
            note = weakest.note
        return replace(weakest, verdict=verdict, note=note, parts=parts)

    return check


def _strength(finding: Finding) -> tuple[int, float]:
    """Order findings: what fails before what is missing before what holds, then by certainty."""
    order: tuple[Verdict, ...] = ("not enough data", "holds")
    at = 0 if finding.verdict in FAILED else 1 + order.index(finding.verdict)
    difference = finding.difference.difference if finding.difference else None
    if difference is None or difference.high is None:
        return at, 0.0
    half = max(difference.high - difference.mean, 1e-12)  # seeds may agree to the last digit
    return at, difference.mean / half


def unchanged(evidence: Evidence, split: str) -> Finding:
    """Check that no score of PMN ever changes after its task was learned, in any run.

    But for those in which modules are fine-tuned, which is another claim.
    """
    return _unchanged(evidence, lambda run: _largest_change(run, split))


def unchanged_inside(evidence: Evidence, split: str) -> Finding:
    """Check that no score of PMN changes while later tasks are learned, on the probe."""
    return _unchanged(evidence, _largest_change_inside)


def _unchanged(evidence: Evidence, change_of: Callable[[Result], float | None]) -> Finding:
    frozen = [
        (run.seed, change)
        for run in evidence.results
        if run.strategy == "pmn" and not run.options.get("finetune")
        if (change := change_of(run)) is not None
    ]
    shown = "largest change of a score"
    if not frozen:
        return Finding(
            "not enough data", "nothing of pmn after a second task", shown, untested=True
        )
    seeds = sorted({seed for seed, _ in frozen})
    largest = interval([max(change for of, change in frozen if of == seed) for seed in seeds])
    changed = sum(change > 0 for _, change in frozen)
    note = f"changed in {changed} of {len(frozen)} runs" if changed else f"0 in {len(frozen)} runs"
    verdict: Verdict = "does not hold" if changed else "holds"
    if not changed and len(seeds) < NEEDED:
        verdict, note = "not enough data", f"{note}; {len(seeds)} seeds, {NEEDED} needed"
    pair = Paired(largest, len(seeds), None)
    return Finding(verdict, note, shown, difference=pair, untested=True)


def _largest_change(run: Result, split: str) -> float | None:
    """Return by how much a score differs at most from that right after learning its task."""
    matrix = run.matrix(split)
    later = [(row[j], matrix[j][j]) for i, row in enumerate(matrix) for j in range(i)]
    known = [abs(now - then) for now, then in later if now is not None and then is not None]
    return max(known) if known and len(known) == len(later) else None


def _largest_change_inside(run: Result) -> float | None:
    """Return by how much a score inside a later task differs at most from that right after its own.

    None where no earlier task was scored inside a later one.
    """
    after = run.scores.get(PROBE, [])
    if len(after) < len(run.tasks):
        return None
    changes = [
        abs(now - then)
        for phase, row in zip(run.inside.phase, run.inside.scores, strict=True)
        for j, now in enumerate(row[:phase])
        if now is not None and (then := after[j][j]) is not None
    ]
    # Scores inside tasks are kept with fewer digits.
    return max(0.0 if change < 1e-5 else change for change in changes) if changes else None


# --- claims ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """What is claimed, where, with which numbers, and how to check it."""

    name: str
    statement: str
    where: str  # table or section
    paper: str  # percent, but for CIDEr and grades; what should be lower comes first
    check: Check


class CheckedClaim(NamedTuple):
    """A claim and what came of it on a split."""

    claim: Claim
    split: str
    finding: Finding
    primary: bool = False


def check_names(primary: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names of primary claims that are none."""
    names = list(known)
    for name in primary:
        if name not in names:
            near = did_you_mean(name, names)
            raise UserError(
                f"primary: no claim {name!r}, expected some of {', '.join(names)}{near}"
            )


def check_claims(evidence: Evidence, claims: Sequence[Claim]) -> list[CheckedClaim]:
    """Check all claims on each split; p-values are corrected over the primary claims of the split.

    Primary ones come first, as they were named. Where none was, all p-values are corrected.
    """
    by_name = {claim.name: claim for claim in claims}
    check_names(evidence.primary, by_name)
    primary = [by_name[name] for name in dict.fromkeys(evidence.primary)]
    secondary = [claim for claim in claims if claim.name not in evidence.primary]
    checked = []
    for split in SPLITS:
        for some, named in ((primary, True), (secondary, False)):
            findings = [claim.check(evidence, split) for claim in some]
            corrected: list[float | None] = [None] * len(findings)
            if named or not primary:
                corrected = holm([_for_correction(found, named) for found in findings])
            checked += [
                CheckedClaim(claim, split, _corrected(found, p), named)
                for claim, found, p in zip(some, findings, corrected, strict=True)
            ]
    return checked


def _for_correction(finding: Finding, named: bool) -> float | None:
    """Return the p-value that a claim enters the correction with.

    That of a claim of several differences is the largest of theirs: it holds where all do. A
    difference the other way is no evidence for a claim, nor are missing data for a named one.
    """
    if finding.untested:
        return None
    parts = finding.parts or (finding,)
    pairs = [part.difference for part in parts]
    if any(part.verdict == "not enough data" for part in parts):
        return 1.0 if named else None
    known = [pair for pair in pairs if pair is not None]
    if any(pair.difference.mean <= 0 for pair in known):
        return 1.0
    return max(0.0 if pair.p is None else pair.p for pair in known)  # seeds that agree to the bit


def _corrected(finding: Finding, p: float | None) -> Finding:
    """Return the finding with its corrected p-value, and with what that makes of its verdict."""
    before_only = finding.verdict == "holds" and p is not None and p > 0.05
    verdict: Verdict = "holds before correction only" if before_only else finding.verdict
    return replace(finding, verdict=verdict, holm=p)
