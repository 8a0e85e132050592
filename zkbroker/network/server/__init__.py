"""The broker's server on gevent: listening sockets, connections and their limits."""
