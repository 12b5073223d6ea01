"""The paper's own world: Visual Genome, COCO captions and VQA 2.0, from their published files.

``features`` turns region features of any published form into one store, ``annotations`` what is
annotated about the images into others, and ``world`` joins them to what a stream learns from.
"""
