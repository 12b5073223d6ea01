"""What a stream.yaml says, checked with every mistake at its line, as typed objects."""
