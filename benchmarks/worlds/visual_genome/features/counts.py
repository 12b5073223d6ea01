"""What was kept of a source, what was left out, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.worlds.visual_genome.features.readers import NOT_NEEDED


@dataclass
class Counts:
    """Counts of one source."""

    images: int = 0  # kept
    skipped: Counter[str] = field(default_factory=Counter)  # images that are not, by reason
    not_needed: int = 0
    whole: int = 0  # images that could be read
    with_confidences: int = 0  # of them
    with_36_boxes: int = 0
    boxes: int = 0  # of images that could be read
    repaired_boxes: int = 0  # they reached out of the image
    boxes_without_area: int = 0
    boxes_not_finite: int = 0
    duplicate_boxes: int = 0
    boxes_beyond: int = 0  # the 36 that are kept
    kept_boxes: int = 0
    clipped_values: int = 0  # to what float16 can hold

    def skip(self, reason: str) -> None:
        """Count an image that is left out."""
        if reason == NOT_NEEDED:
            self.not_needed += 1
        else:
            self.skipped[reason] += 1

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as JSON can hold them."""
        return {**asdict(self), "skipped": dict(self.skipped)}

    @classmethod
    def from_dict(cls, kept: dict[str, Any]) -> Counts:
        """Return the counts that ``as_dict`` was made of."""
        return cls(**{**kept, "skipped": Counter(kept["skipped"])})

    def lines(self, fixed_is_ordered: bool) -> list[str]:
        """Return all of it in sentences."""
        rows = self.images + self.skipped.total()
        lines = [f"{rows:,} images read, {self.images:,} kept"]
        if self.not_needed:
            lines[0] += f"; {self.not_needed:,} more were not needed"
        for reason, count in self.skipped.most_common():
            lines.append(f"{count:,} skipped, {reason}")
        lines.append(f"{self.boxes:,} boxes, {self.kept_boxes:,} kept")
        for count, why in (
            (self.duplicate_boxes, "dropped, overlapping a kept one (IoU > 0.7)"),
            (self.boxes_beyond, "dropped, beyond 36 in an image"),
            (self.boxes_without_area, "dropped, without area in the image"),
            (self.boxes_not_finite, "dropped, features not finite"),
            (self.repaired_boxes, "cut to the image that they reached out of"),
        ):
            if count:
                lines.append(f"{count:,} boxes {why}")
        if self.clipped_values:
            lines.append(f"{self.clipped_values:,} feature values cut to float16's ±65,504")
        return [*lines, self._order(fixed_is_ordered)] if self.whole else lines

    def _order(self, fixed_is_ordered: bool) -> str:
        if self.with_confidences == self.whole:
            return "boxes in order of their confidence"
        if fixed_is_ordered and self.with_36_boxes == self.whole:
            return "36 boxes in every image, which this form keeps in order of confidence"
        return (
            "no confidence in these files: boxes are in the order they came in, which also "
            "decides which of two duplicates is kept, and which 36"
        )
