"""The console's page over 1,000 topics and 10,000 partitions draws and requests a bounded amount.

The responses are made here, since only the page is under test.
"""

import json
import mimetypes
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support import chromium
from tests.support.chromium import Watched

pytestmark = [
    pytest.mark.skipif(chromium.missing() is not None, reason=str(chromium.missing())),
]

BASE = "http://console.test"
STATIC = Path(__file__).parents[2] / "zkbroker" / "console" / "static"
PARTITIONS = 10_000
NAMES = [f"topic-{number:04}" for number in range(1000)]
SESSION = {
    "user": None,
    "role": "viewer",
    "csrf": "",
    "clusters": [{"id": "large", "name": "large"}],
    "version": "0",
    "login": False,
}
OVERVIEW = {
    "time_ms": 1_700_000_000_000,
    "cluster_id": "large",
    "controller": 1,
    "zookeeper": {"servers": ["zk:2181"], "session": "connected", "chroot": ""},
    "brokers": [],
    "topics": len(NAMES),
    "partitions": PARTITIONS,
    "under_replicated": 0,
    "offline": 0,
    "below_min_isr": 0,
    "messages_in_s": 1.0,
    "bytes_in_s": 1.0,
    "bytes_on_disk": 1,
    "problems": [],
}


def row(name: str) -> dict:
    return {
        "name": name,
        "partitions": 10,
        "replication": 3,
        "under_replicated": 0,
        "offline": 0,
        "messages": 10,
        "bytes": None,
        "messages_in_s": 0.5,
        "bytes_s": None,
        "internal": False,
        "settings_changed": 0,
    }


def partition(number: int) -> dict:
    return {
        "id": number,
        "leader": 1,
        "leader_epoch": 0,
        "replicas": [1, 2, 3],
        "isr": [1, 2],
        "start": 0,
        "end": number,
        "bytes": None,
        "state": "under",
    }


def answer(path: str, query: dict[str, str]):
    """Return the response of the API to a path below a cluster."""
    if path == "overview":
        return OVERVIEW
    if path == "topics":
        found = [row(name) for name in NAMES if query.get("search", "") in name]
        found.sort(key=lambda each: each["name"], reverse=query["sort"].startswith("-"))
        first, limit = int(query["offset"]), int(query["limit"])
        return {"total": len(found), "topics": found[first : first + limit]}
    if path.startswith("topics/"):
        setting = {"value": "1", "source": "default", "default": True, "sensitive": False}
        settings = [{"name": f"setting.{number}", **setting} for number in range(30)]
        partitions = [partition(number) for number in range(PARTITIONS)]
        return row(path[7:]) | {"partitions": partitions, "settings": settings, "groups": []}
    if path == "series":
        names = query["names"].split(",")
        times = [1_700_000_000_000 + 5000 * number for number in range(720)]
        return {"times_ms": times, "series": {name: [1.0] * 720 for name in names}}
    return {"moving": []}


def serve(route) -> None:
    """Answer a request of the page from this process."""
    found = urlsplit(route.request.url)
    query = {name: values[0] for name, values in parse_qs(found.query).items()}
    if found.path.startswith("/static/"):
        file = STATIC / found.path.removeprefix("/static/")
        kind = "text/javascript" if file.suffix == ".js" else mimetypes.guess_type(file.name)[0]
        route.fulfill(body=file.read_bytes(), content_type=kind)
    elif not found.path.startswith("/api/"):
        route.fulfill(body=(STATIC / "index.html").read_bytes(), content_type="text/html")
    elif found.path == "/api/session":
        route.fulfill(json=SESSION)
    elif found.path.endswith("/events"):
        changed = [row(name) | {"messages": 77} for name in NAMES]
        body = f"event: overview\ndata: {json.dumps(OVERVIEW)}\n\n"
        if "topics" in query["what"]:
            body += f"event: topics\ndata: {json.dumps(changed)}\n\n"
        route.fulfill(body=body, content_type="text/event-stream")
    else:
        path = found.path.removeprefix("/api/clusters/large/")
        route.fulfill(json=answer(path, query))


@pytest.fixture(scope="module")
def large():
    with chromium.chromium() as browser:
        page = Watched(browser, BASE)
        page.context.route("**/*", serve)
        yield page
        page.close()


@pytest.fixture
def reader(large):
    large.faults.clear()
    large.requests.clear()
    yield large
    assert not large.faults


def requests_for(reader, part: str) -> list[str]:
    return [each for each in reader.requests if "/api/" in each and part in each]


def test_thousand_topics_are_requested_and_drawn_in_pages(reader):
    page = reader.open("topics")
    page.get_by_text("1–100 of 1000 topics").wait_for()
    # The stream updates the visible rows.
    page.get_by_role("cell", name="77", exact=True).first.wait_for()
    assert page.locator("tbody tr").count() == 100
    assert reader.nodes() < 2500
    assert len(requests_for(reader, "/topics?")) == 1
    # The stream, which ends here, is opened repeatedly; everything else is requested once.
    again = ("/events", "/session")
    assert len([each for each in reader.requests if not any(part in each for part in again)]) < 55
    before = len(requests_for(reader, "/topics?"))
    page.get_by_role("button", name="Topic", exact=True).click()
    page.get_by_role("link", name="topic-0999").wait_for()
    page.get_by_role("button", name="Next").click()
    page.get_by_text("101–200 of 1000 topics").wait_for()
    page.keyboard.press("/")
    page.wait_for_function("() => document.activeElement.type === 'search'")
    # In one task of the page, so that no timer ends between two letters.
    page.evaluate(
        """() => {
          for (const letter of "topic-05") {
            document.activeElement.value += letter;
            document.activeElement.dispatchEvent(new Event("input", { bubbles: true }));
          }
        }"""
    )
    page.get_by_role("link", name="topic-0599").wait_for()
    # One for the order, one for the page and one for the word, not one for each letter.
    assert len(requests_for(reader, "/topics?")) - before <= 4
    assert reader.nodes() < 2500


def test_ten_thousand_partitions_are_drawn_in_a_window(reader):
    page = reader.open("topics/topic-0001")
    table = page.get_by_role("region", name=re.compile("Partitions of topic-0001"))
    table.wait_for()
    assert table.locator("table").get_attribute("aria-rowcount") == str(PARTITIONS + 1)
    assert table.locator("tbody tr").count() < 120
    assert reader.nodes() < 3500
    # The End key shows the last row.
    table.focus()
    page.keyboard.press("End")
    last = table.get_by_role("link", name=str(PARTITIONS - 1), exact=True)
    last.wait_for()
    link = page.get_by_role("link", name=str(PARTITIONS - 1), exact=True)
    row_index = table.locator("tr", has=link).get_attribute("aria-rowindex")
    assert row_index == str(PARTITIONS + 1)
    assert table.locator("tbody tr").count() < 120
    assert reader.nodes() < 3500
    table.get_by_role("button", name="End").click()
    table.locator("th[aria-sort=descending]").wait_for()
    page.keyboard.press("Control+Home")
    table.evaluate("box => box.scrollTo(0, 0)")
    table.get_by_role("link", name=str(PARTITIONS - 1), exact=True).wait_for()
    assert reader.nodes() < 3500


def test_formatting_functions_of_the_page(reader):
    """Pure functions of the page, run by the browser."""
    page = reader.open("topics")
    made = page.evaluate(
        """async () => {
          const format = await import("/static/js/format.js");
          const text = await import("/static/js/text.js");
          const table = await import("/static/js/table.js");
          const deep = "[".repeat(60000);
          return {
            unknown: [format.number(null), format.bytes(undefined), format.rate(null)],
            bytes: [0, 1023, 1024, 1536 * 1024, 5 * 1024 ** 4].map(format.bytes),
            span: [0, 61000, 90061000].map(format.span),
            json: text.indentJson('{"a":[1,{"b":{}}],"c":"x,\\\\"y"}'),
            deep: text.indentJson(deep).length,
            hex: text.hexLines("00417a"),
            escapes: text.visible("a\\u0000\\u001bb\\u202e\\ud800").map(each => each.text),
            pieces: text.visible("a\\u0000".repeat(30000)).length,
            lone: text.visible("\\ud83d\\ude00").map(each => each.escaped),
            order: table.sorted(
              [{ n: null }, { n: 2 }, { n: 10 }], { key: "n" }, true).map(each => each.n),
            names: table.sorted(
              [{ n: "t-10" }, { n: "t-9" }], { key: "n" }, false).map(each => each.n),
          };
        }"""
    )
    assert made["unknown"] == ["–", "–", "–"]
    assert made["bytes"] == ["0 B", "1,023 B", "1.0 KiB", "1.5 MiB", "5.0 TiB"]
    assert made["span"] == ["0 s", "1 min 1 s", "1 d 1 h"]
    assert json.loads(made["json"]) == {"a": [1, {"b": {}}], "c": 'x,"y'}
    assert made["json"].splitlines()[:3] == ["{", '  "a": [', "    1,"]
    assert made["deep"] < 10_000_000
    assert made["hex"].endswith("00 41 7a" + " " * (23 - 8 + 2 + 23 + 2) + "·Az")
    assert made["escapes"] == ["a", "\\x00\\x1b", "b", "\\u{202e}\\u{d800}"]
    assert made["pieces"] <= 1000
    assert made["lone"] == [False]
    assert made["order"] == [10, 2, None]
    assert made["names"] == ["t-9", "t-10"]
