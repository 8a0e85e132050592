"""One handler per API: takes a request, returns its response.

Invariant: a handler knows no bytes and no sockets. What concerns one topic or partition becomes
that item's error code; only what concerns the whole request leaves as an exception.
"""
