"""Where runs are executed: processes of this machine, a Ray cluster, a Slurm array."""
