"""Who may ask: one browser that got the one-time link, from our own pages, on this machine.

Another web page in the same browser must not read or do anything here (Host, Origin and Fetch-Site
checks, a SameSite=Strict cookie, a header against forged requests), and neither must another user of the
machine, who does not have the link. Browsers send the cookies of one port to every other port of the same
machine, so the cookie is bound to a path that nobody else knows: a server of another user never gets it.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CSRF_HEADER = "x-sfumato-csrf"
MOST_JSON, MOST_COCO = 1 << 20, 1 << 28
_POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'"
)
# A report is a page of its own: it runs nothing, loads nothing and cannot speak for the studio.
REPORT_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'"
)
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "SAMEORIGIN",
}
_PAGE = '<!doctype html><meta charset="utf-8"><title>sfumato studio</title>'
_SAFE = frozenset({"GET", "HEAD"})
_CHANGES_NOTHING = frozenset({"/api/promise"})  # asked by POST, and answered in read-only mode too
_LONGEST_TARGET, _MOST_COOKIES = 4096, 8


@dataclass
class Doorkeeper:
    """The one-time link, the sessions it opened, and the names under which this server is asked.

    ``say`` hears the next link each time one was used: it is shown where the server was started.
    """

    port: int
    read_only: bool = False
    say: Callable[[str], None] = lambda link: None
    place: str = field(default_factory=lambda: f"/{secrets.token_urlsafe(16)}", repr=False)
    _token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    _sessions: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def link(self) -> str:
        return f"http://127.0.0.1:{self.port}/?token={self._token}"

    @property
    def cookie(self) -> str:
        # cookies know no ports: two studios must not throw each other out
        return f"sfumato-studio-{self.port}"

    @property
    def hosts(self) -> frozenset[str]:
        names = ("127.0.0.1", "localhost", "[::1]")
        return frozenset(f"{name}:{self.port}" for name in names)

    def enter(self, token: str) -> str | None:
        """A new session for whoever has the link, which is worth nothing afterwards."""
        if not _same(token, self._token):
            return None
        self._token = secrets.token_urlsafe(32)
        session = secrets.token_urlsafe(32)
        self._sessions[session] = secrets.token_urlsafe(32)
        self.say(self.link)
        return session

    def csrf_of(self, headers: Headers) -> str | None:
        """What a request of this session must bear to change anything; None without a session."""
        # another server of this machine can set a cookie of the same name: each one is tried
        pairs = (
            each.strip().partition("=") for each in ";".join(headers.getlist("cookie")).split(";")
        )
        given = [value for name, _, value in pairs if name == self.cookie][:_MOST_COOKIES]
        found = (
            csrf for known, csrf in self._sessions.items() for one in given if _same(one, known)
        )
        return next(found, None)

    def refusal(self, scope: Scope) -> Response | None:
        """Why a request is not answered, or None."""
        headers, method, path = Headers(scope=scope), scope["method"], scope["path"]
        if len(scope["raw_path"] or b"") + len(scope["query_string"]) > _LONGEST_TARGET:
            return _no(414, "Expected a short address, got a long one.")
        if headers.getlist("host") not in [[name] for name in self.hosts]:
            return _no(
                421, "Expected to be asked as 127.0.0.1 or localhost with the port of the link."
            )
        opens_page = path in ("/", f"{self.place}/") and method == "GET"
        if not self._from_us(headers, opens_page=opens_page):
            return _no(
                403, "Expected a request of the studio's own pages, got one of another site."
            )
        if path == "/" and method == "GET" and b"token=" in scope["query_string"]:
            return self._entrance(QueryParams(scope["query_string"]))
        csrf = self.csrf_of(headers) if path.startswith(f"{self.place}/") else None
        if csrf is None:
            said = "Expected a browser that opened the link which the terminal shows."
            opened = opens_page and "text/html" in headers.get("accept", "")
            return HTMLResponse(f"{_PAGE}<p>{said}", 401) if opened else _no(401, said)
        if method in _SAFE:
            return None
        if not _same(headers.get(CSRF_HEADER, ""), csrf):
            return _no(403, "Expected the studio's own header with this request, got another.")
        if self.read_only and path.removeprefix(self.place) not in _CHANGES_NOTHING:
            return _no(403, "Expected to read only (--read-only): nothing can be changed here.")
        return None

    def _from_us(self, headers: Headers, *, opens_page: bool) -> bool:
        origins = headers.getlist("origin")
        if any(each not in {f"http://{name}" for name in self.hosts} for each in origins):
            return False
        site = headers.get("sec-fetch-site", "same-origin")
        if opens_page and headers.get("sec-fetch-mode", "navigate") == "navigate":
            return True  # typed, or clicked anywhere: the page shows nothing without the cookie
        return site in ("same-origin", "none")

    def _entrance(self, asked: QueryParams) -> Response:
        tokens = asked.getlist("token")
        session = self.enter(tokens[0]) if len(tokens) == 1 else None
        if session is None:
            return _no(403, "Expected the newest link that the terminal shows; each opens once.")
        # from a file the first request is another site's, and a redirect would be too: our own page goes on
        home = f"{self.place}/"
        go_on = f'{_PAGE}<meta http-equiv="refresh" content="0; url={home}">'
        answer = HTMLResponse(go_on) if "file" in asked else RedirectResponse(home, 303)
        answer.set_cookie(self.cookie, session, httponly=True, samesite="strict", path=home)
        return answer


def _same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), known.encode())


def _no(status: int, sentence: str) -> Response:
    return JSONResponse({"error": sentence}, status)


class Guarded:
    """The application behind its doorkeeper: every answer, refusals included, bears the headers."""

    def __init__(self, app: ASGIApp, doorkeeper: Doorkeeper, leave: Callable[[], None]) -> None:
        self._app, self.doorkeeper, self.leave = app, doorkeeper, leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no web sockets here
            await PlainTextResponse("", 403)(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refused = self.doorkeeper.refusal(scope)
        if refused is not None:
            await refused(scope, receive, guarded)
            return
        inner = {**scope, "path": scope["path"].removeprefix(self.doorkeeper.place)}
        inner["raw_path"] = inner["path"].encode("utf-8", "surrogateescape")
        await self._app(inner, _limited(inner, receive), guarded)


class TooLargeError(Exception):
    """A body beyond what is read here."""


def _limited(scope: Scope, receive: Receive) -> Receive:
    """The body as it comes, up to the limit of its address."""
    most, came = MOST_COCO if scope["path"].endswith("/coco") else MOST_JSON, 0

    async def counted() -> Message:
        nonlocal came
        message = await receive()
        came += len(message.get("body", b""))
        if came > most:
            raise TooLargeError
        return message

    return counted
