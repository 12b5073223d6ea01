"""The ceiling: the stored programs of questions, executed on what classifiers say of regions.

Learns obj and att, and nothing else, but gets each question's program, which no learner gets: it
shows how much of a task can be read off the regions, and how far a learner is from that. With
`probe: modules` it is a diagnosis: what PMN's own M_obj and M_att are good for, and, by `ask`, how
much M_rel and M_cnt lose where a program asks what they have learned.

What programs do not answer gets the best constant answer; a task that has none, such as cap, gets
no score. How programs are executed is the world's to say (``World.executor``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pmn_cl.data.loader import Scenes
from pmn_cl.data.programs import NOT_EXECUTED, ProgramExecutor, SeenRegions
from pmn_cl.errors import UserError
from pmn_cl.strategy.base import (
    Experience,
    LearningCost,
    ParameterCount,
    State,
    Strategy,
    TrainingProgress,
)
from strategies.options import ExecutorOptions, PmnOptions
from strategies.pmn import Progressive
from strategies.probe import probe_options

_AT_ONCE = 512  # scenes or queries
_KEPT = "answers.npz"


class Executor(Strategy):
    """Looks at regions by modules, and executes programs on what these say."""

    Options = ExecutorOptions
    reads = ("program",)

    def __init__(
        self,
        *,
        options: ExecutorOptions | None = None,
        seed: int = 0,
        device: str = "cpu",
        budget: float = 100.0,
        on_progress: Callable[[TrainingProgress], None] | None = None,
    ) -> None:
        super().__init__(options=options, seed=seed)
        wide = self.options.probe == "wide"
        self.modules = Progressive(
            options=probe_options() if wide else _as_of_pmn(self.options),
            seed=seed,
            device=device,
            budget=100.0 if wide else budget,  # a ceiling is no lower where others learn less
            on_progress=on_progress,
        )
        self._constants: dict[str, NDArray[Any]] = {}  # by task: for what is not executed
        self._executors: dict[str, ProgramExecutor] = {}  # by world
        self._seen: dict[tuple[str, str], SeenRegions] = {}  # by data and split
        self._last = ""  # task

    def expect(self, experiences: Sequence[Experience]) -> None:
        """Refuse a world without programs, or a stream without the tasks that it learns."""
        tasks = [experience.task.name for experience in experiences]
        self.options.check_stream(type(experiences[0].world), tasks)
        self.modules.expect(experiences)

    def reuse(self, folder: Path, waiting: Callable[[], None] | None = None) -> None:
        """Take modules that other runs have learned in the same way."""
        self.modules.reuse(folder, waiting)

    def taken(self) -> LearningCost | None:
        """Return what the last module took another run, if the last task has one."""
        return self.modules.taken() if self._last in self.options.learned else None

    def leave(self, cost: LearningCost) -> None:
        """Leave the last module to other runs; of a task that has none, nothing is left."""
        self.modules.leave(cost)

    def learn(self, experience: Experience, validation: Experience) -> None:
        """Learn what is looked at; of the others, what to answer where no program helps."""
        self._last = experience.task.name
        if self._last in self.options.learned:
            self._seen = {}
            self.modules.on_step = self.on_step
            self.modules.learn(experience, validation)
            self.samples_seen = self.modules.samples_seen
        if self._last in self.options.answered:
            return
        self._constants[self._last] = self._constant(experience)
        found = self.score(validation)
        if found:
            self.validation_scores[self._last] = found[experience.task.metric]

    def _constant(self, experience: Experience) -> NDArray[Any]:
        """Return the best constant answer to the samples that programs do not answer, or to all."""
        task, samples, executor = experience.task, experience.samples, self._executor(experience)
        chosen = np.ones(len(samples), bool)
        if task.name in executor.tasks:
            left_over = ~executor.executes(task.name, samples.columns)
            chosen = left_over if left_over.any() else chosen
        columns = {name: samples.columns[name][chosen] for name in samples.columns}
        return task.constant(columns, samples.store.names)

    def predict(self, experience: Experience) -> NDArray[Any]:
        """Answer by the modules, by programs, or by what is most common."""
        name = experience.task.name
        if name in self.options.answered:
            return self.modules.predict(experience)
        if name not in self._constants:
            known = ", ".join({**self.modules.network.learned, **self._constants}) or "none"
            raise UserError(f"task {name!r} was not learned; learned: {known}")
        constant = self._constants[name]
        if name not in self._executor(experience).tasks:
            return np.broadcast_to(constant, (len(experience.samples), *constant.shape))
        answers = self._execute(experience)
        return np.where(answers == NOT_EXECUTED, constant, answers)

    def score(self, experience: Experience) -> dict[str, float]:
        """Return the metrics; none of a task without programs, of which this is no ceiling."""
        done = (*self.options.answered, *self._executor(experience).tasks)
        return super().score(experience) if experience.task.name in done else {}

    def _executor(self, experience: Experience) -> ProgramExecutor:
        world = experience.world
        return self._executors.setdefault(world.name, world.executor())

    def _execute(self, experience: Experience) -> NDArray[np.int64]:
        """Execute the programs; again, when modules have answered what these ask."""
        executor, seen = self._executor(experience), self._look(experience)
        name, columns = experience.task.name, experience.samples.columns
        oracle = ModuleAnswers(self.modules, experience.batches.scenes, self.options.ask)
        while True:
            found = executor.predict(name, columns, seen, oracle)
            if not oracle.answer_open_queries():
                return found

    def _look(self, experience: Experience) -> SeenRegions:
        """Return what the modules say of all regions of a split, worked out once."""
        place = (experience.samples.store.digest, experience.samples.split)
        if place not in self._seen:
            scenes = experience.batches.scenes
            blocks = torch.split(torch.arange(len(scenes)), _AT_ONCE)
            batches = [scenes.take(block) for block in blocks]
            objects, attributes = (
                torch.cat([_ask(self.modules, x, task) for x in batches]).numpy()
                for task in ("obj", "att")
            )
            boxes, mask = (torch.cat([x[n] for x in batches]).numpy() for n in ("boxes", "mask"))
            self._seen[place] = SeenRegions(objects, attributes, boxes, mask)
        return self._seen[place]

    def parameter_count(self) -> ParameterCount:
        """Count the modules; executing changes none of them."""
        total, trainable = self.modules.parameter_count()
        return ParameterCount(total, trainable if self._last in self.options.learned else 0)

    @property
    def validation_scores(self) -> dict[str, float]:
        """Return those of the modules."""
        return self.modules.validation_scores

    def digest(self) -> str:
        """Return that of the modules."""
        return self.modules.digest()

    def details(self) -> dict[str, float]:
        """Return what the modules say."""
        return self.modules.details()

    def state(self) -> State:
        """Return that of the modules, and the constant answers."""
        tensors, facts = self.modules.state()
        constants = {task: answer.tolist() for task, answer in self._constants.items()}
        return State(tensors, {**facts, "constants": constants})

    def restore(self, state: State, done: Sequence[Experience]) -> None:
        """Go back to a state."""
        facts = state.facts["constants"]
        self._constants = {task: np.asarray(answer) for task, answer in facts.items()}
        self.modules.restore(state, self._learned_of(done))
        self.samples_seen = self.modules.samples_seen
        self._last = done[-1].task.name if done else ""

    def save(self, folder: str | Path) -> None:
        """Keep the modules, each in a file of its own, and the constant answers."""
        self.modules.save(folder)
        Path(folder).mkdir(parents=True, exist_ok=True)
        np.savez(Path(folder) / _KEPT, allow_pickle=False, **self._constants)

    def load(self, folder: str | Path, experiences: Sequence[Experience]) -> None:
        """Take up the modules and the answers."""
        self.modules.load(folder, self._learned_of(experiences))
        with np.load(Path(folder) / _KEPT, allow_pickle=False) as kept:
            self._constants = {task: kept[task] for task in kept.files}
        self._last = experiences[-1].task.name if experiences else ""

    def _learned_of(self, experiences: Sequence[Experience]) -> list[Experience]:
        return [e for e in experiences if e.task.name in self.options.learned]


class ModuleAnswers:
    """What M_rel and M_cnt answer to the queries of programs: many are asked at once.

    A program that is executed before leaves its query open, and gets an answer of no meaning.
    """

    def __init__(self, modules: Progressive, scenes: Scenes, asked: Sequence[str]) -> None:
        self._modules, self._scenes, self._asked = modules, scenes, asked
        self._related: dict[tuple[int, int, int], NDArray[Any] | None] = {}
        self._counted: dict[tuple[int, tuple[int, ...]], int | None] = {}

    def related(self, scene: int, region: int, relation: int) -> NDArray[Any] | None:
        """Return M_rel's probability of each region, if it is to be asked."""
        if "rel" not in self._asked:
            return None
        known = self._related.setdefault((scene, region, relation))
        return np.zeros(self._regions) if known is None else known

    def counted(self, scene: int, question: Sequence[int]) -> int | None:
        """Return M_cnt's count, if it is to be asked."""
        if "cnt" not in self._asked:
            return None
        return self._counted.setdefault((scene, tuple(question))) or 0

    def answer_open_queries(self) -> bool:
        """Ask the modules what they were not asked yet; return whether there was anything."""
        related = [query for query, answer in self._related.items() if answer is None]
        counted = [query for query, answer in self._counted.items() if answer is None]
        for start in range(0, len(related), _AT_ONCE):
            some = related[start : start + _AT_ONCE]
            maps = self._maps(torch.tensor(some))
            self._related.update(zip(some, maps, strict=True))
        for start in range(0, len(counted), _AT_ONCE):
            questions = counted[start : start + _AT_ONCE]
            self._counted.update(zip(questions, self._counts(questions), strict=True))
        return bool(related or counted)

    @property
    def _regions(self) -> int:
        return self._scenes.take(torch.zeros(1, dtype=torch.int64))["mask"].shape[1]

    def _maps(self, queries: Tensor) -> NDArray[Any]:
        scene, box, relation = queries.unbind(1)
        names = self._modules.network["rel"].plan.shape.names
        direction = torch.full_like(box, names["directions"].index("subject"))
        x = {**self._scenes.take(scene), "scene": scene + self._scenes.first}
        x |= {"box": box, "relation": relation, "direction": direction}
        logits = _ask(self._modules, x, "rel").double()  # floats would make 1 of all large ones
        return np.asarray(logits.sigmoid().numpy())

    def _counts(self, queries: Sequence[tuple[int, tuple[int, ...]]]) -> list[int]:
        scene = torch.tensor([number for number, _ in queries])
        x = {**self._scenes.take(scene), "scene": scene + self._scenes.first}
        x["question"] = torch.tensor([question for _, question in queries])
        counts: list[int] = _ask(self._modules, x, "cnt").argmax(1).tolist()
        return counts


@torch.no_grad()
def _ask(modules: Progressive, x: dict[str, Tensor], task: str) -> Tensor:
    """Return what a frozen module says of a batch."""
    device = modules.device
    outputs: Tensor = modules.network({name: value.to(device) for name, value in x.items()}, task)
    return outputs.cpu()


def _as_of_pmn(options: ExecutorOptions) -> PmnOptions:
    """Return the options that are PMN's, as far as they were given."""
    given = options.model_fields_set & PmnOptions.model_fields.keys()
    return PmnOptions.model_validate({name: getattr(options, name) for name in given})
