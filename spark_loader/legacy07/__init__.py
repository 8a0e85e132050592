"""Kafka 0.7 as a source: the plug-in that `kafka.generation=0.7` names."""
