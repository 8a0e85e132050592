"""Checks the parameters of requests: bounded numbers, texts of a bounded length, JSON bodies.

Invariant: a value that is not allowed raises `Refused`, with a sentence that names a remedy.
"""

from collections.abc import Mapping
from typing import Any

from flask import request

from zkbroker.admin.topics import TopicDescription
from zkbroker.console.cluster_state import ClusterState

MAX_BODY_BYTES = 256 * 1024
_MAX_TEXT = 1000


class Refused(Exception):
    """A refused request: a status of HTTP, a short code for programs, a text with a remedy."""

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.code = code


def bad(text: str) -> Refused:
    """Return the refusal of an invalid request."""
    return Refused(400, "bad_request", text)


def missing(text: str) -> Refused:
    """Return the refusal of a request about something that does not exist."""
    return Refused(404, "not_found", text)


def topic_of(seen: ClusterState, name: str) -> TopicDescription:
    """Return a topic of a cluster; raise a refusal if there is none."""
    found = seen.topics.get(name)
    if found is None:
        raise missing(f"there is no topic {name[:249]}")
    return found


def text_of(name: str, *, most: int = _MAX_TEXT) -> str:
    """Return a text of the query; empty if it is not given."""
    value = request.args.get(name, "")
    if len(value) > most:
        raise bad(f"{name} is longer than {most} characters: shorten it")
    return value


def number_of(name: str, default: int, least: int, most: int) -> int:
    """Return a whole number of the query."""
    text = request.args.get(name)
    return default if text is None or text == "" else whole(name, text, least, most)


def whole(name: str, value: object, least: int, most: int) -> int:
    """Return a whole number that was given as a number or a text."""
    number = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str) and len(value) <= 20 and value.strip().lstrip("-").isdecimal():
        try:
            number = int(value)
        except ValueError:
            number = None
    if number is None or not least <= number <= most:
        raise bad(f"{name} has to be a whole number from {least} to {most}")
    return number


def body() -> Mapping[str, Any]:
    """Return the JSON object of a request."""
    if request.mimetype != "application/json":
        raise bad("the body has to be JSON: set Content-Type: application/json")
    try:
        found = request.get_json(silent=True, cache=False)
    except RecursionError:
        found = None
    if not isinstance(found, dict):
        raise bad("the body has to be a JSON object")
    return found


def text_in(given: Mapping[str, Any], name: str, most: int = _MAX_TEXT) -> str:
    """Return a text of a body."""
    value = given.get(name)
    if not isinstance(value, str) or len(value) > most:
        raise bad(f"{name} has to be a text of at most {most} characters")
    return value
