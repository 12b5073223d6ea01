"""How a network comes to an answer, as data, in words and in numbers.

``record`` says what an explanation is, ``sentence`` puts it into words, ``explainer`` makes it of
a run, and ``faithfulness`` measures whether it is true.
"""
