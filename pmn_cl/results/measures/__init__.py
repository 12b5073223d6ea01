"""What a run comes to: measures by name, each a function of a run and what it is compared with."""
