"""Our stream, our PMN, an Avalanche plugin of one's own: avalanche_pmn.py [STREAM.yaml]."""

import sys

import torch

from benchmarks.stream import Stream
from pmn_cl.config.stream import find_stream, load_spec
from strategies.pmn import PmnOptions, Progressive

from avalanche.training.plugins import SupervisedPlugin  # isort: skip  # ours come first


class MeanLoss(SupervisedPlugin):
    """Prints the mean loss of every epoch: any plugin of Avalanche's can be used like this."""

    def before_training_epoch(self, strategy, **kwargs):
        self.losses = []

    def after_training_iteration(self, strategy, **kwargs):
        self.losses.append(strategy.loss.item())

    def after_training_epoch(self, strategy, **kwargs):
        task, mean = strategy.experience.task.name, sum(self.losses) / len(self.losses)
        print(f"  {task} epoch {strategy.clock.train_exp_epochs + 1}: loss {mean:.3f}")


torch.set_num_threads(1)
spec = load_spec(find_stream(sys.argv[1] if len(sys.argv) > 1 else "stream.yaml")[0])
options = next(item.options for item in spec.strategies if item.name == "pmn")
benchmark = Stream.open(spec, seed=0).as_avalanche()
pmn = Progressive(options=PmnOptions.model_validate(options), plugins=[MeanLoss()])
for experience in benchmark.train_stream:
    pmn.train(experience, eval_streams=[benchmark.streams["val"]])
    for test in benchmark.test_stream[: experience.task_label + 1]:
        print(test.task.name, pmn.score(test))
