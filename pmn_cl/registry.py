"""Names that YAML files and the command line may use, and how a name becomes a class.

A name stands for ``package.module:Name``; anything of somebody else's is named by such a
reference directly, with no entry here. Nothing is imported until it is asked for.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from typing import Any

from pmn_cl.errors import UserError, did_you_mean

TASKS = {
    "obj": "pmn_cl.tasks.objects:ObjectTask",
    "att": "pmn_cl.tasks.attributes:AttributeTask",
    "rel": "pmn_cl.tasks.relations:RelationTask",
    "cap": "pmn_cl.tasks.captions:CaptionTask",
    "cnt": "pmn_cl.tasks.counts:CountTask",
    "vqa": "pmn_cl.tasks.answers:AnswerTask",
}
WORLDS = {
    "digits": "benchmarks.worlds.digit_scenes.world:DigitScenes",
    "visual_genome": "benchmarks.worlds.visual_genome.world:VisualGenome",
}
STRATEGIES = {
    "constant": "baselines.constant:Constant",
    "executor": "strategies.executor:Executor",
    "pmn": "strategies.pmn:Progressive",
    "independent": "strategies.independent:Independent",
    "parameter_matched": "strategies.independent:ParameterMatched",
    "hard_sharing": "baselines.hard_sharing:HardSharing",
    "hard_sharing_joint": "baselines.hard_sharing:HardSharingJoint",
    "hard_sharing_cumulative": "baselines.hard_sharing:HardSharingCumulative",
    "hard_sharing_modules": "baselines.hard_sharing_modules:HardSharingModules",
    "pnn": "baselines.pnn:ProgressiveColumns",
    "multinet": "baselines.multinet:Multinet",
    "multinet_frozen": "baselines.multinet:MultinetFrozen",
    "multinet_joint": "baselines.multinet:MultinetJoint",
    "ewc": "baselines.standard.regularisation:Ewc",
    "si": "baselines.standard.regularisation:Si",
    "mas": "baselines.standard.regularisation:Mas",
    "agem": "baselines.standard.rehearsal:Agem",
    "replay": "baselines.standard.rehearsal:Replay",
    "gem": "baselines.gem:GradientEpisodicMemory",
    "lwf": "baselines.lwf:LearningWithoutForgetting",
    "plugin": "baselines.standard.plugin:Plugin",
}
# Beside the names, since importing some strategies takes seconds.
STRATEGY_SUMMARIES = {
    "constant": "the best constant answer of each task: the floor of every comparison",
    "executor": "programs executed on what a wide probe sees: the ceiling of every comparison",
    "pmn": "Progressive Module Networks: new modules ask the frozen ones of simpler tasks",
    "independent": "PMN's base modules, each from scratch: the reference for transfer",
    "parameter_matched": "the same, M_vqa0 widened to PMN's number of parameters",
    "hard_sharing": "one trunk, a head per task, learned one after another (Caruana 1993)",
    "hard_sharing_joint": "the same network, all tasks at once: what sharing can reach",
    "hard_sharing_cumulative": "the same network, all earlier data at hand for every new task",
    "hard_sharing_modules": "the same in sequence, with PMN's base modules for heads",
    "pnn": "Progressive Neural Networks: a column per task, lateral connections (Rusu et al. 2016)",
    "multinet": "Multinet: outputs come back into a shared representation (Bilen & Vedaldi 2016)",
    "multinet_frozen": "the same, what was learned before stays fixed",
    "multinet_joint": "the same, all tasks at once",
    "ewc": "hard sharing with elastic weight consolidation (Kirkpatrick et al. 2017)",
    "si": "hard sharing with synaptic intelligence (Zenke et al. 2017)",
    "mas": "hard sharing with memory aware synapses (Aljundi et al. 2018)",
    "agem": "hard sharing with averaged gradient episodic memory (Chaudhry et al. 2019)",
    "replay": "hard sharing with experience replay",
    "gem": "hard sharing with gradient episodic memory (Lopez-Paz & Ranzato 2017)",
    "lwf": "hard sharing with learning without forgetting (Li & Hoiem 2016)",
    "plugin": "hard sharing with a plugin of Avalanche's: `plugin: package.module:Class`",
}
STRATEGY_OPTIONS = {
    "constant": "pmn_cl.strategy.base:StrategyOptions",
    "executor": "strategies.options:ExecutorOptions",
    "pmn": "strategies.options:PmnOptions",
    "independent": "strategies.options:PmnOptions",
    "parameter_matched": "strategies.options:PmnOptions",
    "hard_sharing": "baselines.options:HeadsOptions",
    "hard_sharing_joint": "baselines.options:HeadsOptions",
    "hard_sharing_cumulative": "baselines.options:HeadsOptions",
    "hard_sharing_modules": "baselines.options:ModulesOptions",
    "pnn": "baselines.options:PnnOptions",
    "multinet": "baselines.options:MultinetOptions",
    "multinet_frozen": "baselines.options:MultinetOptions",
    "multinet_joint": "baselines.options:MultinetOptions",
    "ewc": "baselines.options:EwcOptions",
    "si": "baselines.options:SiOptions",
    "mas": "baselines.options:MasOptions",
    "agem": "baselines.options:AgemOptions",
    "replay": "baselines.options:ReplayOptions",
    "gem": "baselines.options:GemOptions",
    "lwf": "baselines.options:LwfOptions",
    "plugin": "baselines.options:PluginOptions",
}
MODULES = {
    "obj": "pmn_cl.modules.terminal:ObjectModule",
    "att": "pmn_cl.modules.terminal:AttributeModule",
    "rel": "pmn_cl.modules.relation:RelationModule",
    "cap": "pmn_cl.modules.caption:CaptionModule",
    "cnt": "pmn_cl.modules.count:CountModule",
    "vqa": "pmn_cl.modules.answer:AnswerModule",
}


def load(reference: str) -> Any:
    """Import what ``package.module:Name`` refers to."""
    module_name, _, attribute = reference.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), attribute)):
        raise UserError(f"found {reference!r}, expected a reference package.module:Name")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a module of the user's may do anything
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module_name}.".startswith(f"{missing}."):
            raise UserError(
                f"no module {missing!r} on the path, expected package.module:Name; put it beside "
                "the YAML file or install it"
            ) from None
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f" ({Path(place.filename).name}, line {place.lineno})"
        if isinstance(error, SyntaxError):  # which says it itself
            where = ""
        raise UserError(
            f"module {module_name!r} cannot be imported: {type(error).__name__}: {error}{where}"
        ) from error
    try:
        return getattr(module, attribute)
    except AttributeError:
        near = did_you_mean(attribute, dir(module))
        raise UserError(f"module {module_name!r} has no {attribute!r}{near}") from None


def find(name: str, known: dict[str, str], what: str, base: type | None = None) -> Any:
    """Return the class that a name or a reference stands for, a subclass of ``base``."""
    if name not in known and ":" not in name:
        raise UserError(
            f"unknown {what} {name!r}, expected one of {', '.join(known)} or a reference "
            f"package.module:Name{did_you_mean(name, known)}"
        )
    found = load(known.get(name, name))
    if base is not None and not (isinstance(found, type) and issubclass(found, base)):
        raise UserError(f"{name!r} is no {base.__module__}.{base.__name__}, and must be one")
    declared = [n for n in (base.__annotations__ if base else ()) if not n.startswith("_")]
    needed = [n for n in declared if not hasattr(found, n)]
    needed += sorted(getattr(found, "__abstractmethods__", ()))
    if needed:
        raise UserError(f"{name!r} lacks {', '.join(needed)}")
    return found


def search_last(folder: Path) -> None:
    """Let modules in this folder be found, after everything else, so that none is shadowed."""
    entry = str(folder.resolve())
    if entry not in sys.path:
        sys.path.append(entry)
