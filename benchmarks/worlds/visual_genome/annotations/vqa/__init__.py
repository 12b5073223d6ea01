"""VQA 2.0: questions and answers."""
