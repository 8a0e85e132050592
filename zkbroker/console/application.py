"""The console as a WSGI application: the page, its files, sessions, and the API in its parts.

    /api/...      JSON, streams and downloads; see the modules of this room
    /static/...   the files of the page
    /...          the page, whatever view the address names

Invariant: every answer has the headers that isolate the page; without a login only the page's own
    files are served; changes need the token of the session. An error is JSON with a sentence, and
    no answer has a traceback.
"""

import hmac
import logging
import re
from collections.abc import Mapping
from functools import cached_property
from importlib import resources
from urllib.parse import urlsplit

from flask import Blueprint, Flask, Response, g, request, send_from_directory
from werkzeug.exceptions import HTTPException, NotFound

from zkbroker import __version__
from zkbroker.broker.admin_access import WINDOW_S, AccessDecision
from zkbroker.broker.mounting import USER
from zkbroker.console.actions_api import ActionsApi
from zkbroker.console.api import Api, json_answer
from zkbroker.console.collector import Collector
from zkbroker.console.events import EventStreams
from zkbroker.console.failures import explain
from zkbroker.console.logins import Logins, ViewerRole, Visitor
from zkbroker.console.reading_api import ReadingApi
from zkbroker.console.requests import MAX_BODY_BYTES, Refused, body, missing, text_in
from zkbroker.errors import ZkbrokerError
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)

COOKIE = "zkbroker_console"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'self'; form-action 'self'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_BASE = re.compile(r'<base href="[^"]*"')
_OPEN = frozenset({"session", "login", "logout"})
_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".html": "text/html",
}


def make_application(
    collectors: Mapping[str, Collector],
    logins: Logins,
    runtime: Runtime,
    *,
    encrypted: bool = False,
    hosts: frozenset[str] = frozenset(),
) -> Flask:
    """Return the application.

    Args:
        collectors: by the ids of their clusters.
        logins: sessions and roles.
        runtime: of its requests.
        encrypted: whether it is served over TLS: the cookie is then sent only over TLS.
        hosts: host names that requests may have; empty for any. Without a login this keeps out
            pages that rebind their own name to this address.
    """
    app = Flask("zkbroker.console", static_folder=None, template_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    app.config["PROPAGATE_EXCEPTIONS"] = False
    app.json.sort_keys = False  # type: ignore[attr-defined]
    app.url_map.merge_slashes = False  # an address with two slashes is wrong, not redirected
    _Page(app, collectors, logins, encrypted, hosts)
    routes = Blueprint("api", __name__, url_prefix="/api/clusters/<cluster>")
    streams = EventStreams()
    api = Api(collectors, streams)
    api.add_to(routes)
    ReadingApi(api, streams, runtime).add_to(routes)
    ActionsApi(api).add_to(routes)
    app.register_blueprint(routes)
    return app


class _Page:
    """Sessions, files and errors of the application."""

    def __init__(
        self,
        app: Flask,
        collectors: Mapping[str, Collector],
        logins: Logins,
        encrypted: bool,
        hosts: frozenset[str],
    ) -> None:
        self._collectors = collectors
        self._logins = logins
        self._encrypted = encrypted
        self._hosts = hosts
        app.before_request(self._let_in)
        app.after_request(_protect)
        app.register_error_handler(HTTPException, _http_error)
        app.register_error_handler(Refused, _refused)
        app.register_error_handler(ZkbrokerError, _failed)
        app.register_error_handler(Exception, _broken)
        app.add_url_rule("/api/session", view_func=self.session)
        app.add_url_rule("/api/login", view_func=self.log_in, methods=["POST"])
        app.add_url_rule("/api/logout", view_func=self.log_out, methods=["POST"])
        app.add_url_rule("/api/<path:path>", view_func=_no_such_answer)
        app.add_url_rule("/static/<path:name>", view_func=_file)
        app.add_url_rule("/", view_func=self.page)
        app.add_url_rule("/<path:path>", view_func=self.page)

    def _let_in(self) -> None:
        host = _host_name(request.host)
        if self._hosts and host not in self._hosts:
            raise Refused(
                421,
                "wrong_host",
                "this console is not served under that name: use the address that it was started "
                "with, or name it with --allowed-host",
            )
        path = request.path.removeprefix("/api/")
        if path == request.path:
            return
        changes = request.method not in ("GET", "HEAD", "OPTIONS")
        if changes:
            _check_origin()
        visitor = self._logins.visitor(request.cookies.get(COOKIE), request.environ.get(USER))
        g.visitor = visitor
        if path in _OPEN:
            return
        if visitor is None:
            raise Refused(401, "login_needed", "log in first")
        if changes:
            _check_token(visitor)
            if visitor.role is not ViewerRole.OPERATOR:
                raise Refused(
                    403,
                    "operators_only",
                    "only operators may change anything: have the console started with your user "
                    "among its operators",
                )

    def session(self) -> Response:
        visitor: Visitor | None = g.visitor
        if visitor is None:
            return json_answer({"login": True}, 401)
        return self._session_of(visitor)

    def _session_of(self, visitor: Visitor) -> Response:
        clusters = [
            {"id": name, "name": each.access.settings.name, "generation": each.seen.generation}
            for name, each in self._collectors.items()
        ]
        return json_answer(
            {
                "user": visitor.user,
                "role": visitor.role.value,
                "csrf": visitor.csrf,
                "clusters": clusters,
                "version": __version__,
                "login": self._logins.needed and USER not in request.environ,
            }
        )

    def log_in(self) -> Response:
        if not self._logins.needed:
            raise Refused(404, "no_login", "this console has no login")
        given = body()
        user, password = text_in(given, "user"), text_in(given, "password")
        token = self._logins.log_in(user, password, request.remote_addr or "")
        if token is AccessDecision.TOO_MANY:
            refused = Refused(429, "too_many", "too many wrong passwords: wait a minute")
            response = _refused(refused)
            response.headers["Retry-After"] = f"{WINDOW_S:.0f}"
            return response
        visitor = None if isinstance(token, AccessDecision) else self._logins.visitor(token)
        if isinstance(token, AccessDecision) or visitor is None:
            raise Refused(403, "wrong_login", "user or password is wrong")
        response = self._session_of(visitor)
        response.set_cookie(
            COOKIE,
            token,
            secure=self._encrypted,
            httponly=True,
            samesite="Strict",
            path=request.script_root + "/",
        )
        return response

    def log_out(self) -> Response:
        visitor: Visitor | None = g.visitor
        if visitor is not None:
            _check_token(visitor)
        self._logins.log_out(request.cookies.get(COOKIE))
        response = json_answer({"login": self._logins.needed})
        response.delete_cookie(COOKIE, path=request.script_root + "/")
        return response

    def page(self, path: str = "") -> Response:
        base = f'<base href="{request.script_root}/"'
        response = Response(_BASE.sub(base, self._index, count=1), mimetype="text/html")
        response.headers["Cache-Control"] = "no-cache"
        return response

    @cached_property
    def _index(self) -> str:
        return (resources.files(__package__) / "static" / "index.html").read_text("utf-8")


def _file(name: str) -> Response:
    with resources.as_file(resources.files(__package__) / "static") as directory:
        suffix = "." + name.rpartition(".")[2].lower()
        try:
            response = send_from_directory(
                directory, name, mimetype=_TYPES.get(suffix, "application/octet-stream")
            )
        except (NotFound, ValueError):
            raise missing("the page has no such file") from None
    response.headers["Cache-Control"] = "no-cache"
    return response


def _no_such_answer(path: str) -> Response:
    raise missing("there is nothing under this address")


def _protect(response: Response) -> Response:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers["Server"] = "zkbroker"
    return response


def _host_name(host: str) -> str:
    """Return the name in a Host header, without its port."""
    if host.startswith("["):
        return host.partition("]")[0].removeprefix("[").lower()
    return host.partition(":")[0].lower()


def _check_origin() -> None:
    """Refuse requests from other pages."""
    origin = request.headers.get("Origin")
    site = request.headers.get("Sec-Fetch-Site")
    foreign = site is not None and site not in ("same-origin", "none")
    if origin is not None:
        foreign = foreign or _netloc(origin) != request.host.lower()
    if foreign:
        raise Refused(
            403, "wrong_origin", "this request came from another page: use the console's own"
        )


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _check_token(visitor: Visitor) -> None:
    token = request.headers.get("X-CSRF-Token", "")
    # Compared as bytes: a header may contain any character.
    if not hmac.compare_digest(token.encode(errors="replace"), visitor.csrf.encode()):
        raise Refused(
            403,
            "wrong_token",
            "the request has no X-CSRF-Token of this session: load the page again",
        )


def _refused(error: Refused) -> Response:
    return json_answer({"error": str(error), "code": error.code}, error.status)


def _http_error(error: HTTPException) -> Response:
    status = error.code or 500
    text = {
        404: "there is nothing under this address",
        405: "this address does not take such a request",
        413: f"the body is larger than {MAX_BODY_BYTES} bytes: send less",
    }.get(status, "this request cannot be understood")
    if status < 400:
        # A redirect by Flask, which no address here needs.
        status = 404
    return json_answer({"error": text, "code": f"http_{status}"}, status)


def _failed(error: ZkbrokerError) -> Response:
    status, code, text = explain(error)
    return json_answer({"error": text, "code": code}, status)


def _broken(error: Exception) -> Response:
    logger.error("console request failed path=%s", request.path[:200], exc_info=error)
    text = "the console could not answer: its log says why"
    return json_answer({"error": text, "code": "internal"}, 500)
