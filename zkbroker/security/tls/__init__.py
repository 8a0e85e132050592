"""TLS: keys and certificates from files, and the contexts of connections.

Invariant: versions below TLS 1.2 are used only if the settings name them; a file that cannot be
used gives a `ConfigError` that says what to change.
"""
