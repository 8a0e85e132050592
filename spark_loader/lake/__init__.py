"""An output directory: its table and checkpoints, the proof over them, and moving positions."""
