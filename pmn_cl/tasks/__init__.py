"""The tasks: what a sample asks, how an answer is scored and trained. Knows no model."""
