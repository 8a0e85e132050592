"""Pages of a token issuer, over HTTP.

Invariant: credentials go only to their address, and a request by TLS is answered by TLS: no
redirection changes that.
"""

import http.client
import urllib.request
from typing import IO, Any


def read_page(request: str | urllib.request.Request, timeout_s: float, max_bytes: int) -> bytes:
    """Read a page.

    Args:
        request: an address (`https:` or `http:`), or a whole request.
        timeout_s: of each wait, in seconds.
        max_bytes: the longest page.

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
        """Return the next request; None refuses it, which makes the page an error."""
        unencrypted = req.type == "https" and not newurl.lower().startswith("https:")
        if unencrypted or req.has_header("Authorization"):
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)
