"""What networks with a head per task share."""
