"""Explanations as plain data, and what is said and measured of them. No torch here."""
