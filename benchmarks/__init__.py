"""Worlds to learn from, the streams made of them, and the speed benchmarks."""
