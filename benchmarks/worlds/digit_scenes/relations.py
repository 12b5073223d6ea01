"""The seven relations between the things of a scene: which stands how to which.

``related(scene)[r][o]`` are the subjects s of "s r o": the things left of o, those that show
the same digit as o, and so on. A thing is never related to itself.
"""

from __future__ import annotations

from benchmarks.worlds.digit_scenes.concepts import (
    ABOVE,
    BELOW,
    LEFT,
    NEAREST,
    RELATIONS,
    RIGHT,
    SAME_COLOUR,
    SAME_DIGIT,
)
from benchmarks.worlds.digit_scenes.scenes import Scene

Related = list[list[list[int]]]  # relation, object → its subjects


def related(scene: Scene) -> Related:
    """Work out all relations of a scene.

    The four directions split the plane into quarters along its diagonals, so any other thing
    stands in exactly one direction; exact diagonals count as left or right.
    """
    things = scene.things
    # Twice the centre, to stay with whole numbers.
    centres = [(t.box[0] + t.box[2], t.box[1] + t.box[3]) for t in things]
    subjects: Related = [[[] for _ in things] for _ in RELATIONS]
    for o, (ox, oy) in enumerate(centres):
        nearest = None
        for s, (sx, sy) in enumerate(centres):
            if s == o:
                continue
            dx, dy = sx - ox, sy - oy
            if abs(dx) >= abs(dy):
                subjects[LEFT if dx < 0 else RIGHT][o].append(s)
            else:
                subjects[ABOVE if dy < 0 else BELOW][o].append(s)
            if things[s].digit == things[o].digit:
                subjects[SAME_DIGIT][o].append(s)
            if things[s].colour == things[o].colour:
                subjects[SAME_COLOUR][o].append(s)
            distance = dx * dx + dy * dy
            if nearest is None or distance < nearest:
                nearest, subjects[NEAREST][o] = distance, [s]
            elif distance == nearest:
                subjects[NEAREST][o].append(s)
    return subjects


def inverse(subjects: Related) -> Related:
    """Return the objects o of "s r o" for every relation and subject s."""
    objects: Related = [[[] for _ in relation] for relation in subjects]
    for r, relation in enumerate(subjects):
        for o, of_object in enumerate(relation):
            for s in of_object:
                objects[r][s].append(o)
    return objects
