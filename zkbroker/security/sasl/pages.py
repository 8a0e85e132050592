"""Pages of an issuer of tokens, over HTTP.

Invariant: credentials go where they were meant to go and nowhere else, and what was asked for by
TLS comes by TLS: no redirection changes that.
"""

import http.client
import urllib.request
from typing import IO, Any


def read_page(request: str | urllib.request.Request, timeout_s: float, max_bytes: int) -> bytes:
    """Read a page.

    Args:
        request: an address (`https:` or `http:`), or a whole request.
        timeout_s: of each wait, in seconds.
        max_bytes: what is read of it at most.

    Raises:
        OSError: it cannot be read.
    """
    opener = urllib.request.build_opener(_Redirections())
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            return bytes(answer.read(max_bytes))
    except http.client.HTTPException as error:
        raise OSError(f"no answer of HTTP: {error!r}") from error


class _Redirections(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Any,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Return the next request; None refuses, and the page is an error then."""
        unencrypted = req.type == "https" and not newurl.lower().startswith("https:")
        if unencrypted or req.has_header("Authorization"):
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)
