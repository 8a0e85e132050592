"""File systems under a lake: local directories, and any that Hadoop knows."""
