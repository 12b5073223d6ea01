"""The record of a run, and everything that follows from records alone. No torch here."""
