"""Opens a log after a stop or a crash: invalid bytes are cut off and kept in a file."""
