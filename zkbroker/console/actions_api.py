"""The part of the API that changes things: a plan first, then the action with a confirmation.

    {"dry_run": true, …}        -> {"plan": […], "warnings": […], "confirm": "the topic's name"}
    {"confirm": "…", …}         -> {"done": […]}

Invariant: no action runs without its confirmation, and each is logged in one line, with the user.
    `application` lets only operators call it.
"""

import logging
from collections.abc import Callable

from flask import Blueprint, Response, g, request

from zkbroker.console import actions
from zkbroker.console.actions import ActionPlan, Given
from zkbroker.console.api import Api, json_answer, kind_of
from zkbroker.console.collector import Collector
from zkbroker.console.offset_actions import reset
from zkbroker.console.requests import Refused, bad, body
from zkbroker.errors import ZkbrokerError
from zkbroker.network.server.pages import TAKE_TIME

logger = logging.getLogger(__name__)


class ActionsApi:
    """Actions of operators."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def add_to(self, blueprint: Blueprint) -> None:
        """Add the routes."""
        topic = "/topics/<topic>"
        plans: tuple[tuple[str, str, Callable[..., ActionPlan]], ...] = (
            ("/topics", "create", actions.create),
            (f"{topic}/alter", "alter", actions.alter),
            (f"{topic}/delete", "delete", actions.delete),
            (f"{topic}/elect", "elect", actions.elect),
            (f"{topic}/reassign", "reassign", actions.reassign),
            (f"{topic}/remove-throttle", "remove-throttle", actions.remove_throttle),
            ("/groups/<kind>/<path:group>/reset", "reset", _reset),
        )
        for rule, name, plan in plans:
            blueprint.add_url_rule(rule, name, self._view(name, plan), methods=["POST"])
        blueprint.add_url_rule("/reassignments", "reassignments", self.reassignments)

    def reassignments(self, cluster: str) -> Response:
        collector = self._api.collector(cluster)
        if collector.seen.generation is not None:
            return json_answer({"moving": []})
        return json_answer({"moving": actions.moving(collector.access.session)})

    def _view(self, name: str, plan: Callable[..., ActionPlan]) -> Callable[..., Response]:
        def view(cluster: str, **subject: str) -> Response:
            collector = self._api.collector(cluster)
            self._api.require_newer(collector, "topics and groups that this page can change")
            given = body()
            return _answered(name, collector, given, plan(collector, given=given, **subject))

        return view


def _reset(collector: Collector, kind: str, group: str, given: Given) -> ActionPlan:
    return reset(collector, kind_of(kind), group, given)


def _answered(name: str, collector: Collector, given: Given, plan: ActionPlan) -> Response:
    dry_run = given.get("dry_run", False)
    if not isinstance(dry_run, bool):
        raise bad("dry_run has to be true or false")
    if dry_run:
        return json_answer(
            {"plan": list(plan.steps), "warnings": list(plan.warnings), "confirm": plan.confirm}
        )
    if given.get("confirm") != plan.confirm:
        raise Refused(
            409, "not_confirmed", f"nothing was changed: confirm with the word {plan.confirm!r}"
        )
    # The controller may take longer than an ordinary request.
    request.environ.get(TAKE_TIME, lambda: None)()
    where = collector.access.settings.name
    logger.info(
        "console action=%s user=%r cluster=%r subject=%r steps=%r",
        name, g.visitor.user, where, plan.confirm, list(plan.steps)[:5],
    )  # fmt: skip
    try:
        plan.run()
    except ZkbrokerError as error:
        logger.warning("console action=%s subject=%r failed error=%s", name, plan.confirm, error)
        raise
    finally:
        collector.hurry()
    return json_answer({"done": list(plan.steps)})
