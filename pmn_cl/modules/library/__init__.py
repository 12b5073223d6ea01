"""Learned modules in files: cards, the cache that runs share, word vectors."""
