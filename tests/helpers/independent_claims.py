"""The primary claims from result.json files alone, with nothing of pmn-bench: numpy and scipy.

`python independent_claims.py FOLDER SPLIT` prints, as JSON by claim, the difference, half of its
95% interval, p, and Holm's p.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy import stats

FIELD = ["hard_sharing", "hard_sharing_joint", "pnn", "multinet", "multinet_joint", "lwf", "replay"]
split = sys.argv[2]
runs = defaultdict(dict)  # what it is → seed → result
for path in sorted(Path(sys.argv[1]).rglob("result.json")):
    r = json.loads(path.read_text("utf-8"))
    name, variant = r["run"]["strategy"]["name"], r["run"]["strategy"]["variant"]
    kinds = {"run": (name, variant), "ablate": r["run"]["rung"]}
    kinds["sweep"] = (name, r["run"]["stream"]["fraction"])
    runs[kinds[r["run"]["study"]]][r["run"]["seed"]] = r


def last(what: object) -> dict[int, float]:  # scores on the last task of all
    return {seed: r["scores"][split][-1][-1] for seed, r in runs[what].items()}


def normalised(
    what: object,
) -> dict[int, float]:  # 0 is the constant answer, 1 the executor, or joint training
    values = {}
    for seed, r in runs[what].items():
        floor, top = dict(zip(r["tasks"], r["constant"][split], strict=True)), {}
        for best in (runs["hard_sharing_joint", ""].get(seed), runs["executor", ""].get(seed)):
            pairs = zip(best["tasks"], best["scores"][split][-1], strict=True) if best else ()
            top |= {task: s for task, s in pairs if s is not None and s > floor[task]}
        final = zip(r["tasks"], r["scores"][split][-1], strict=True)
        values[seed] = np.mean([(s - floor[t]) / (top[t] - floor[t]) for t, s in final])
    return values


def over(ours: dict[int, float], theirs: dict[int, float]) -> list[float]:  # paired by seed
    d = np.array([ours[seed] - theirs[seed] for seed in sorted({*ours} & {*theirs})])
    half = stats.t.ppf(0.975, len(d) - 1) * d.std(ddof=1) / len(d) ** 0.5
    return [d.mean(), half, stats.ttest_1samp(d, 0).pvalue]


def p_for(difference: float, half: float, p: float, largest: float = 0.0) -> float:
    return max(p, largest) if difference > 0 else 1.0  # the other way is no evidence


def weakest(found: list[list[float]]) -> list[float]:  # all of them have to be there
    return [*min(found, key=lambda one: one[0] / one[1]), max(p_for(*one) for one in found)]


modules = {"rel": "M_rel1", "cap": "M_cap1", "cnt": "M_cnt2", "vqa": "M_vqa5"}
claims = {f"{t} over base": over(last(m), last(f"M_{t}0")) for t, m in modules.items()}
claims["parameters"] = over(last("M_vqa5"), last("M_vqa0 matched"))
claims["learned gates"] = over(last("M_vqa5"), last("M_vqa5 equal gates"))
pmn = normalised(("pmn", ""))
claims["best of the field"] = weakest([over(pmn, normalised((n, "[b, r]"))) for n in FIELD])
gains = [over(last(("pmn", f)), last(("independent", f))) for f in (5, 10, 25, 50, 100)]
claims["low data, positive"] = weakest(gains)
p = {name: p_for(*found) for name, found in claims.items()}
order = sorted(p, key=lambda name: p[name])
holm = [min(1, (len(order) - rank) * p[name]) for rank, name in enumerate(order)]
corrected = dict(zip(order, np.maximum.accumulate(holm), strict=True))
print(json.dumps({name: [*found[:3], corrected[name]] for name, found in claims.items()}))
