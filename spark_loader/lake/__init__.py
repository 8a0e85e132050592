"""What an output directory holds: its checkpoints, the proof over them, and moving positions."""
