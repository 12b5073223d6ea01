"""Scores by question family: side by side, and which families were not learned."""
