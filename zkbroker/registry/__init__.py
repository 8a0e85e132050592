"""The registry: the znodes of brokers, topics, groups and the cluster.

Invariant: the tree is that of Kafka 0.8 to 2.x, so that the tools and clients of those versions can
use it; one module has the schema of each node.
"""
