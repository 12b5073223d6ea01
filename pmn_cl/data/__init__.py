"""From a world to batches: stores, samples, loaders. Knows no model."""
