"""The registry: what every znode of brokers, topics, groups and the cluster holds.

Invariant: the tree kept here is the one that Kafka 0.8 to 2.x keeps, so that the tools and clients
of those versions find their way; each schema stands in one module.
"""
