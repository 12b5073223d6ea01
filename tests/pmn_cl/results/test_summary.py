"""What results mean: what the sentences say, by hand, and what they must not."""

from __future__ import annotations

from made_results import FIELD, changed, learned, result

from pmn_cl.results.summary import meaning


def test_three_sentences_by_hand() -> None:
    last, forgotten, chance = meaning(FIELD)
    # b at the end: pmn (0.7 + 0.6)/2, independent 0.5, joint 0.6; the constant answer 0.1.
    assert last.startswith("b at the end: best pmn 0.650, learned alone 0.500, ")
    assert "all tasks at once 0.600" in last and last.endswith("constant answer 0.100.")
    # hard sharing lost 0.8 − 0.4 and 0.8 − 0.2 on a.
    assert forgotten == (
        "Forgetting: exactly 0 for pmn, independent; most for hard_sharing, "
        "0.500 on average over the earlier tasks."
    )
    # +0.2 and +0.1: mean 0.15, standard error 0.05, t(0.975, 1) = 12.7062.
    assert chance.startswith("pmn minus independent on the last task: +0.150 over 2 seeds")
    assert "-0.485 to +0.785, so it may be chance" in chance


def test_one_seed_is_said_to_be_one() -> None:
    *_, chance = meaning([r for r in FIELD if r.seed == 0])
    assert chance.startswith("One seed, so there is no interval")


def test_almost_nothing_forgotten_is_not_nothing() -> None:
    some = [learned("a", 0, 0.5, 0.4999999, 0.3), learned("b", 0, 0.5, 0.6, 0.3)]
    _, forgotten, _ = meaning(some)
    assert forgotten.startswith("Forgetting: none has 0")


def test_little_is_said_of_little() -> None:
    assert list(meaning([])) == []
    assert list(meaning([learned("pmn", 0, 1, 1, 1)])) == []  # beside whom?
    failed = result("hard_sharing", 0, [[0.1, None]], status="failed")
    assert list(meaning([learned("pmn", 0, 1, 1, 1), failed])) == []
    constant = learned("constant", 0, 0.2, 0.2, 0.1)
    assert list(meaning([learned("pmn", 0, 1, 1, 1), constant])) == []


def test_the_ceiling_is_named_and_never_the_best() -> None:
    ceiling = [learned("executor", seed, 0.9, 0.9, 0.95) for seed in (0, 1)]
    on_modules = learned("executor", 0, 0.9, 0.9, 0.99)
    diagnosis = changed(on_modules, variant="modules", options={"probe": "modules"})
    last, forgotten, _ = meaning([*ceiling, diagnosis, *FIELD])
    assert last.startswith("b at the end: best pmn 0.650, ")
    assert last.endswith("the best constant answer 0.100, programs on a wide probe 0.950.")
    assert "executor" not in last + forgotten
    assert list(meaning([learned("pmn", 0, 1, 1, 1), *ceiling])) == []  # beside whom?


def test_no_difference_is_not_called_chance() -> None:
    same = [learned(name, seed, 0.5, 0.5, 0.3) for name in ("a", "b") for seed in (0, 1)]
    *_, chance = meaning(same)
    assert chance == "a and b came to the same on the last task, with every seed."
