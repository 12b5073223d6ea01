"""The tasks: what a sample asks, how an answer is scored and trained. No models here."""
