"""The API: what is under `/api/clusters/{cluster}/`.

Invariant: answers come from a collector's publication; only requests about a single object use the
    network.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from flask import Blueprint, Response, request

from zkbroker.admin.described_configs import described
from zkbroker.admin.entity_configs import TopicEntity
from zkbroker.console import views
from zkbroker.console.cluster_state import GroupStorage
from zkbroker.console.collector import Collector
from zkbroker.console.events import EventStreams, cluster_events
from zkbroker.console.mirrors import Mirrors, source_finder
from zkbroker.console.publication import Row, dumps
from zkbroker.console.requests import Refused, bad, missing, number_of, text_of, topic_of
from zkbroker.console.settings_view import setting_rows
from zkbroker.errors import UnsupportedVersion, ZkbrokerError

Answer = Callable[..., Response]

_MAX_ROWS = 1000
_MAX_NAMES = 200
_MAX_NAMES_TEXT = 20_000
_SORTS = frozenset(
    {
        "name", "partitions", "replication", "under_replicated", "offline", "messages", "bytes",
        "messages_in_s", "bytes_s", "settings_changed",
    }
)  # fmt: skip


def json_answer(value: object, status: int = 200) -> Response:
    """Return JSON."""
    return Response(dumps(value), status, mimetype="application/json")


class Api:
    """Views of clusters; `collectors` has the ids of their clusters."""

    def __init__(self, collectors: Mapping[str, Collector], streams: EventStreams) -> None:
        self._collectors = collectors
        self._streams = streams
        self._mirrors: dict[str, Mirrors] = {}

    def add_to(self, blueprint: Blueprint) -> None:
        """Add the routes."""
        for rule, view in (
            ("/overview", self.overview),
            ("/series", self.series),
            ("/topics", self.topics),
            ("/topics/<topic>", self.topic),
            ("/groups", self.groups),
            ("/groups/<kind>/<path:name>", self.group),
            ("/events", self.events),
        ):
            blueprint.add_url_rule(rule, view.__name__, view)

    def mirrors(self, collector: Collector) -> Mirrors:
        """Return the mirrors into a cluster."""
        settings = collector.access.settings
        found = self._mirrors.get(settings.id)
        if found is None:
            others = {
                name: (each.access.settings.name, each.seen)
                for name, each in self._collectors.items()
            }
            found = self._mirrors[settings.id] = Mirrors(
                settings.name, collector.seen, source_finder(others), collector.runtime
            )
        return found

    def overview(self, cluster: str) -> Response:
        return json_answer(self.collector(cluster).published.overview)

    def series(self, cluster: str) -> Response:
        collector = self.collector(cluster)
        times, found = collector.history.read(names_of("names"), number_of("since_ms", 0, 0, 2**53))
        return json_answer({"times_ms": times, "series": found})

    def topics(self, cluster: str) -> Response:
        rows = searched(self.collector(cluster).published.topics)
        sort = text_of("sort") or "name"
        down, column = sort.startswith("-"), sort.removeprefix("-")
        if column not in _SORTS:
            raise bad(f"sort has to be one of {', '.join(sorted(_SORTS))}, with - before it or not")
        # Unknown values come last, in either order.
        known = [row for row in rows if row[column] is not None]
        unknown = [row for row in rows if row[column] is None]
        rows = sorted(known, key=lambda row: row[column], reverse=down) + unknown
        return json_answer({"total": len(rows), "topics": page_of(rows)})

    def topic(self, cluster: str, topic: str) -> Response:
        collector = self.collector(cluster)
        seen = collector.seen
        found = topic_of(seen, topic)
        settings, failure = None, None
        try:
            self.require_newer(collector, "settings of topics")
            settings = setting_rows(described(collector.access.cluster, TopicEntity(topic)))
        except UnsupportedVersion:
            own = None if seen.settings is None else seen.settings.get(topic, {})
            settings = None if own is None else [
                {"name": name, "value": value, "source": "topic", "default": False,
                 "sensitive": False}
                for name, value in own.items()
            ]  # fmt: skip
        except (ZkbrokerError, Refused) as error:
            failure = str(error)
        return json_answer(
            {
                **views.topic_row(seen, found),
                "settings": settings,
                "settings_error": failure,
                "partitions": views.partition_rows(seen, found),
                "groups": views.groups_of_topic(seen, topic),
            }
        )

    def groups(self, cluster: str) -> Response:
        rows = searched(self.collector(cluster).published.groups)
        return json_answer({"total": len(rows), "groups": page_of(rows)})

    def group(self, cluster: str, kind: str, name: str) -> Response:
        collector = self.collector(cluster)
        found = collector.describe_group((kind_of(kind), name))
        if found is None:
            raise missing(f"there is no group {name[:249]} of this kind")
        return json_answer(views.group_page(collector.seen, found))

    def events(self, cluster: str) -> Response:
        collector = self.collector(cluster)
        what = frozenset((text_of("what") or "overview,topics,groups").split(","))
        names = names_of("names")
        return self._streams.stream(lambda: cluster_events(collector, what, names), request.environ)

    def require_newer(self, collector: Collector, what: str) -> None:
        """Refuse requests that another generation of Kafka does not support."""
        if collector.seen.generation is not None:
            raise Refused(
                501, "other_generation", f"Kafka {collector.seen.generation} has no {what}"
            )

    def collector(self, cluster: str) -> Collector:
        """Return the collector of a cluster; raise a refusal if there is none."""
        found = self._collectors.get(cluster)
        if found is None:
            raise missing(
                f"there is no cluster {cluster[:100]}: see api/session for the known ones"
            )
        return found


def kind_of(text: str) -> GroupStorage:
    """Return a kind of groups."""
    try:
        return GroupStorage(text)
    except ValueError:
        raise missing("the kind of a group is coordinator or zookeeper") from None


def searched(rows: Iterable[Row]) -> list[Row]:
    """Return the rows whose name contains the requested text."""
    search = text_of("search").lower()
    return [row for row in rows if search in row["name"].lower()]


def page_of(rows: list[Any]) -> list[Any]:
    """Return the requested page of rows."""
    first = number_of("offset", 0, 0, 10_000_000)
    return rows[first : first + number_of("limit", 100, 0, _MAX_ROWS)]


def names_of(parameter: str) -> list[str]:
    """Return a list in the query, of names with percent-encoding."""
    text = text_of(parameter, most=_MAX_NAMES_TEXT)
    # Each name is encoded by itself, since a group's name may contain a comma.
    names = [unquote(name) for name in text.split(",") if name]
    if len(names) > _MAX_NAMES:
        raise bad(f"{parameter} names more than {_MAX_NAMES}: ask for fewer at a time")
    return names
