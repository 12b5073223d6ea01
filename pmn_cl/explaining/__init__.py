"""How a network comes to an answer, as data, in words and in numbers.

``records`` defines an explanation and puts it into a sentence, ``tracer`` and ``explainer`` make it
from a run, ``interventions`` and ``measurement`` measure whether it is true; ``faithfulness`` is
the command, and ``opener`` opens a run for commands.
"""
