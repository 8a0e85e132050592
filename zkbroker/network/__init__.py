"""Connections: the client's, pipelined on either runtime, and the broker's server on gevent.

Neither is imported here: a client on threads must not import gevent.
"""
