"""People's annotations of the images, from published files to samples about extracted boxes.

Each command makes one whole file beside ``features.h5``, whose rows its samples refer to:

- ``genome`` → genome.h5: obj, att and rel out of Visual Genome. ``facts/objects`` and
  ``facts/relations`` keep what its training images show, for questions made of it.
- ``vqa`` → vqa.h5: cnt and vqa out of VQA 2.0; ``extra/cnt`` and ``extra/vqa`` are the questions
  made of those facts (``synthetic``), ``server/vqa`` those without answers.
- ``coco`` → coco.h5: cap out of COCO's captions.

Vectors of a GloVe file are in ``words/question`` of vqa.h5 and ``words/caption`` of coco.h5:
``vector`` (W, d) and ``found`` (W,), a row for each of "question words" and "caption words".

Reading order: ``json_lists`` and ``records`` read any version; ``genome/files``, ``vqa/files`` and
``coco`` read the published forms; ``genome/leakage`` keeps what is tested on out of training;
``parts`` builds a file once; ``tally`` counts what was repaired or left out.
"""
