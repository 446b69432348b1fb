"""Requests and answers: strict JSON in, JSON or one sentence out."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import Any

import cv2
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from sfumato.errors import SfumatoError, refusal
from sfumato.files import parse_json
from sfumato.media import Image
from sfumato.people import StaleEditError
from sfumato.studio._library import NotThereError
from sfumato.studio._security import TooLargeError

_NUMBER = re.compile(r"[0-9]{1,9}")
_ID = re.compile(r"[0-9a-f]{24}")
_QUALITY = 85


class WrongRequestError(SfumatoError):
    """A request that no page of ours would send."""


def error_answer(error: Exception, tidied: Callable[[str], str] = str) -> Response:
    """One sentence for whatever went wrong; nothing of it quotes a recording or a path outside the root."""
    match error:
        case NotThereError():
            status, said = 404, str(error)
        case StaleEditError():
            status, said = 409, str(error)
        case TooLargeError():
            status, said = 413, "Expected a smaller request, got one beyond the limit."
        case SfumatoError():
            status, said = 400, str(error)
        case OSError():
            status, said = 400, refusal(error)
        case HTTPException():
            status, said = error.status_code, f"Expected an address of the studio ({error.detail})."
        case _:
            status = 500
            said = f"Unexpected {type(error).__name__}: this is a bug in sfumato; report it without data."
    return JSONResponse({"error": tidied(said)}, status)


def answered(work: Callable[[Request], Any]) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint whose errors become sentences; what is no response yet is answered as JSON.

    Plain functions run in a thread, while the server goes on answering; the body is read for them.
    """

    async def endpoint(request: Request) -> Response:
        try:
            if iscoroutinefunction(work):
                answer = await work(request)
            else:
                request.state.body = await request.body()
                answer = await run_in_threadpool(work, request)
            return answer if isinstance(answer, Response) else JSONResponse(answer)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception as error:  # noqa: BLE001 - the browser gets a sentence, never a traceback
            return error_answer(error, request.app.state.studio.library.without_root)

    return endpoint


def body_of(request: Request, **kinds: type | tuple[type, ...]) -> dict[str, Any]:
    """The JSON object of a request with exactly these members, of these types."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise WrongRequestError("Expected application/json, got another type of body.")
    try:
        given = parse_json(request.state.body.decode("utf-8") or "{}")
    except ValueError:
        raise WrongRequestError("Expected JSON, got something else.") from None
    if not isinstance(given, dict):
        raise WrongRequestError("Expected a JSON object, got something else.")
    return members(given, **kinds)


def members(given: dict[str, Any], **kinds: type | tuple[type, ...]) -> dict[str, Any]:
    unknown = sorted(set(given) - set(kinds))
    if unknown:
        raise WrongRequestError(
            f"Expected members out of {', '.join(kinds)}, got {unknown[0][:40]!r}."
        )
    for name, kind in kinds.items():
        of = kind if isinstance(kind, tuple) else (kind,)
        value = given.get(name)
        wrong = not isinstance(value, of) or (
            isinstance(value, bool) and not {bool, object} & set(of)
        )
        if wrong:
            raise WrongRequestError(f"Expected another type of value for {name!r}.")
    return {name: given.get(name) for name in kinds}


def id_in(request: Request, name: str = "id") -> str:
    return checked_id(request.path_params[name])


def checked_id(value: object) -> str:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise NotThereError("Expected an id that the studio gave, got something else.")
    return value


def number_in(text: str, what: str, least: int = 0, most: int = 10**9 - 1) -> int:
    if not _NUMBER.fullmatch(text) or not least <= int(text) <= most:
        raise WrongRequestError(f"Expected {what} as a number from {least} to {most}.")
    return int(text)


def query_number(
    request: Request,
    name: str,
    default: int | None = None,
    *,
    least: int = 0,
    most: int = 10**9 - 1,
) -> int:
    given = request.query_params.getlist(name)
    if not given and default is not None:
        return default
    if len(given) != 1:
        raise WrongRequestError(f"Expected one number {name!r} in the address.")
    return number_in(given[0], name, least, most)


def jpeg(image: Image, width: int | None) -> Response:
    """A picture, scaled down if asked; it is not to be kept anywhere."""
    if width is not None and width < image.shape[1]:
        height = max(1, round(image.shape[0] * width / image.shape[1]))
        image = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)  # type: ignore[assignment]
    ok, data = cv2.imencode(
        ".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, _QUALITY]
    )
    assert ok
    return Response(data.tobytes(), media_type="image/jpeg")
