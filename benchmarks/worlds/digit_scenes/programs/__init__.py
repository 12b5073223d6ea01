"""The programs of the digit world: their operations, the things that are seen, the executor."""
