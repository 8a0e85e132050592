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
from zkbroker.console.actions import Given, Plan
from zkbroker.console.api import Api, json_answer, kind_of
from zkbroker.console.collector import Collector
from zkbroker.console.offset_actions import reset
from zkbroker.console.requests import Refused, bad, body
from zkbroker.errors import ZkbrokerError
from zkbroker.network.server.pages import TAKE_TIME

logger = logging.getLogger(__name__)

Planned = Callable[[Collector, str, Given], Plan]


class ActionsApi:
    """Actions of operators."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def add_to(self, blueprint: Blueprint) -> None:
        """Add the routes."""
        post = ["POST"]
        blueprint.add_url_rule("/topics", "create", self.create, methods=post)
        for name, plan in (
            ("alter", actions.alter),
            ("delete", actions.delete),
            ("elect", actions.elect),
            ("reassign", actions.reassign),
            ("remove-throttle", actions.remove_throttle),
        ):
            blueprint.add_url_rule(
                f"/topics/<topic>/{name}", name, self._of_topic(name, plan), methods=post
            )
        blueprint.add_url_rule(
            "/groups/<kind>/<path:group>/reset", "reset", self.reset, methods=post
        )
        blueprint.add_url_rule("/reassignments", "reassignments", self.reassignments)

    def create(self, cluster: str) -> Response:
        collector, given = self._changeable(cluster), body()
        return _answered("create", collector, given, actions.create(collector, given))

    def reset(self, cluster: str, kind: str, group: str) -> Response:
        collector, given = self._changeable(cluster), body()
        plan = reset(collector, kind_of(kind), group, given)
        return _answered("reset", collector, given, plan)

    def reassignments(self, cluster: str) -> Response:
        collector = self._api.collector(cluster)
        if collector.seen.generation is not None:
            return json_answer({"moving": []})
        return json_answer({"moving": actions.moving(collector.access.session)})

    def _changeable(self, cluster: str) -> Collector:
        collector = self._api.collector(cluster)
        self._api.require_newer(collector, "topics and groups that this page can change")
        return collector

    def _of_topic(self, name: str, plan: Planned) -> Callable[[str, str], Response]:
        def view(cluster: str, topic: str) -> Response:
            collector, given = self._changeable(cluster), body()
            return _answered(name, collector, given, plan(collector, topic, given))

        return view


def _answered(name: str, collector: Collector, given: Given, plan: Plan) -> Response:
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
