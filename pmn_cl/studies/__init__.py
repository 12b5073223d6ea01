"""Many runs for one question: a comparison, an ablation, a low-data sweep, a search."""
