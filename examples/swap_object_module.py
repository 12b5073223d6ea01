"""Plug and play: put a worse and a better M_obj below modules that were learned, untouched.

    python examples/swap_object_module.py MODULES

MODULES is a folder of learned modules. A new M_obj learns from the same samples, for fewer or for
more epochs; every module above is scored with it in place, and none is trained again. It starts
from the same weights as the old one (the same seed): modules answer with vectors, and one that
starts elsewhere ends up speaking another language.
"""

import click
import torch

from benchmarks.stream import Stream
from pmn_cl.config.stream import find_stream, load_spec
from strategies.pmn import PmnOptions, Progressive

EPOCHS = {"worse": 1, "better": 40}


@click.command()
@click.argument("modules")
@click.option("--split", default="test", show_default=True)
@click.option("--seed", default=0, show_default=True, help="That of the modules, see above.")
def main(modules: str, split: str, seed: int) -> None:
    """Score all tasks with each M_obj."""
    torch.set_num_threads(1)
    spec = load_spec(find_stream("stream.yaml")[0])
    benchmark = Stream.open(spec, seed=0).as_avalanche()
    pmn = Progressive(options=PmnOptions(start_from=[modules]))
    for experience in benchmark.train_stream:
        pmn.train(experience, eval_streams=[])
    print_scores("as learned", pmn, benchmark.streams[split])
    train, val = benchmark.train_stream[0], benchmark.streams["val"][0]
    for name, epochs in EPOCHS.items():
        options = PmnOptions.model_validate({"training": {"obj": {"epochs": epochs}}})
        learner = Progressive(options=options, seed=seed)
        learner.learn(train, val)
        pmn.network.replace("obj", learner.network["obj"])
        print_scores(f"{name} M_obj", pmn, benchmark.streams[split])


def print_scores(what: str, pmn: Progressive, stream) -> None:
    """Print the primary metric of every task."""
    scores = {test.task.name: pmn.score(test)[test.task.metric] for test in stream}
    print(f"{what:<14}" + "  ".join(f"{task} {score:.3f}" for task, score in scores.items()))


if __name__ == "__main__":
    main()
