"""The embedded world: scenes of real handwritten digits, with exact truth for six tasks.

Read in this order: ``concepts`` (what there is to know), ``scenes`` (where things are),
``relations``, ``questions`` with ``families`` and ``phrasing``, ``captions``; then ``render``
and ``detector`` (what a model gets to see), ``columns`` and ``rows`` (as numbers) and ``world``
(all of it, written to a store). ``extra_questions`` makes more questions, for streams
that ask for them. ``preview``, ``panels`` and ``layout`` draw the picture for people.
"""
