"""From a world to batches: stores, samples, loaders. No models here."""
