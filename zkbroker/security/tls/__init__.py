"""TLS: keys and certificates from files, and the contexts that connections are made with.

Invariant: nothing below TLS 1.2 is spoken unless it was named; a file that cannot be used is a
`ConfigError` that says what to change.
"""

from zkbroker.security.tls.contexts import ClientContexts, client_contexts
from zkbroker.security.tls.explain import explain_failure

__all__ = ["ClientContexts", "client_contexts", "explain_failure"]
