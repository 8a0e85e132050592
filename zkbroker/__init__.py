"""zkbroker: the classic ZooKeeper-coordinated Kafka, rebuilt in Python.

Importing this package changes nothing in the importing process: no monkey-patching, no logging
handlers, no threads.
"""

__version__ = "0.2.0"
