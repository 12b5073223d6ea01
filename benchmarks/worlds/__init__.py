"""The worlds that come with pmn-bench."""
