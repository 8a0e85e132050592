"""Partitions and their roles: leadership, following, the ISR, the high watermark, and waits."""
