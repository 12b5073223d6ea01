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
from pmn_cl.explaining.tracer import Tracer
from pmn_cl.tasks.captions import words_to_text
from strategies.pmn import PmnOptions, Progressive


@click.command()
@click.argument("modules")
@click.option("--sample", default=0, show_default=True, help="Which relational question.")
@click.option("--depth", default=0, show_default=True, help="How deep calls are shown.")
def main(modules: str, sample: int, depth: int) -> None:
    """Print the execution of a question."""
    stream = Stream.open(load_spec(find_stream("stream.yaml")[0]), seed=0)
    benchmark, names = stream.as_avalanche(), stream.store.names
    pmn = Progressive(options=PmnOptions(start_from=[modules]))
    for experience in benchmark.train_stream:
        pmn.train(experience, eval_streams=[])
    questions = benchmark.test_stream[-1]
    relational = np.flatnonzero(questions.samples.columns["ask_relation"] >= 0)
    x, y = questions.batches[torch.tensor([relational[sample]])]
    [traced] = Tracer(pmn.network, names, stream.world.relation_phrases())(x)
    print(f"{words_to_text(x['question'][0].numpy(), names['question words'])}?")
    for call in traced["calls"]:
        if call.depth <= depth:
            gate = "" if call.gate is None else f" ({call.gate:.2f})"
            asked = f"step {call.step}: {call.caller} asks {call.callee}{gate}: {call.query.words}"
            print(f"{'  ' * call.depth}{call.number}. {asked} → {call.reply.words}")
    print(f"answer: {traced['answer']} {traced['confidence']:.2f}")
    print(f"truth: {names['answers'][int(y['answers'][0, 0])]}")


if __name__ == "__main__":
    main()
