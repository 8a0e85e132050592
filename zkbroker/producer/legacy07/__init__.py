"""Producing to brokers of Kafka 0.7, which never answer a produce."""
