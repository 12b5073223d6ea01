"""How PMN comes to an answer: the calls of one relational question, as text.

    python examples/trace_question.py MODULES [--sample N] [--depth D]

MODULES is a folder of learned modules, up to vqa; questions are those of the test split that
need a relation.
"""

import click
import numpy as np
import torch

from benchmarks.stream import Stream
from pmn_cl.config.stream import find_stream, load_spec
from pmn_cl.modules.telling import tell
from strategies.pmn import PmnOptions, Progressive


@click.command()
@click.argument("modules")
@click.option("--sample", default=0, show_default=True, help="Which relational question.")
@click.option("--depth", default=0, show_default=True, help="Tell what callees ask, too.")
def main(modules: str, sample: int, depth: int) -> None:
    """Print the execution of a question."""
    spec = load_spec(find_stream("stream.yaml")[0])
    benchmark = Stream.open(spec, seed=0).as_avalanche()
    pmn = Progressive(options=PmnOptions(start_from=[modules]))
    for experience in benchmark.train_stream:
        pmn.train(experience, eval_streams=[])
    questions = benchmark.test_stream[-1]
    relational = np.flatnonzero(questions.samples.columns["ask_relation"] >= 0)
    x, y = questions.batches[torch.tensor([relational[sample]])]
    names = questions.samples.store.names
    print(tell(pmn.network, x, "vqa", names, depth=depth))
    print(f"truth: {names['answers'][int(y['answers'][0, 0])]}")


if __name__ == "__main__":
    main()
