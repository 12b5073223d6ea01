"""Explanations as plain data, their sentences and their measures. No torch here."""
