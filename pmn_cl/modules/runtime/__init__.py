"""What modules run on: the environment they see, a memory, traces, the network that owns them."""
