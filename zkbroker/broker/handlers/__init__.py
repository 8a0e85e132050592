"""One handler per API: takes a request, returns its response.

Invariant: a handler knows no bytes and no sockets. A failure of one topic or partition becomes that
item's error code; only a failure of the whole request is raised.
"""
