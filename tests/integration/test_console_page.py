"""The console's page in a real browser, over a real cluster with load."""

import re

import pytest

from tests.support import chromium
from tests.support.chromium import Watched
from tests.support.consoles import running_console
from tests.support.shown_cluster import LARGE_BYTES, shown_cluster
from zkbroker.security.password_hashes import PasswordHash

pytestmark = [
    pytest.mark.skipif(chromium.missing() is not None, reason=str(chromium.missing())),
    pytest.mark.timeout(300),  # the first test starts cluster, console and browser
]

PASSWORDS = {"olga": "may change", "victor": "may look"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A cluster with load, and the address of a console with an operator and a viewer."""
    users = tmp_path_factory.mktemp("console") / "users"
    lines = [f"{user}:{PasswordHash.of(word, iterations=10)}\n" for user, word in PASSWORDS.items()]
    users.write_text("".join(lines))
    with shown_cluster() as (cluster, admin_port):
        pages = [
            argument
            for broker in cluster.brokers
            for argument in (
                "--admin-page",
                f"{broker.id}=http://127.0.0.1:{admin_port + broker.id - 1}",
            )
        ]
        arguments = ["-z", cluster.zookeeper, "--interval", "0.5", *pages]
        arguments += ["--users", str(users), "--operator", "olga"]
        with running_console(*arguments) as console:
            yield cluster, console


@pytest.fixture(scope="module")
def browser():
    with chromium.chromium() as started:
        yield started


def watched(browser, site, user):
    reader = Watched(browser, site[1].base)
    reader.log_in(user, PASSWORDS[user])
    return reader


@pytest.fixture(scope="module")
def operator_page(browser, site):
    reader = watched(browser, site, "olga")
    yield reader
    reader.close()


@pytest.fixture(scope="module")
def viewer_page(browser, site):
    reader = watched(browser, site, "victor")
    yield reader
    reader.close()


@pytest.fixture
def operator(operator_page):
    operator_page.faults.clear()
    yield operator_page
    assert not operator_page.faults


@pytest.fixture
def viewer(viewer_page):
    viewer_page.faults.clear()
    yield viewer_page
    assert not viewer_page.faults


VIEWS = {
    "overview": ["Brokers up", "Messages in", "No problems.", "Log directories"],
    "topics": ["events", "orders", "hostile"],
    "topics/events": ["in sync", "billing", "retention.ms", "86400000"],
    "topics/events/partitions/0": ["Segments", "Offsets by time"],
    "groups": ["billing", "classic", "ZooKeeper"],
    "groups/coordinator/billing": ["billing-1", "127.0.0.1", "events-0"],
    "groups/zookeeper/classic": ["events", "40"],
    "clients": ["shop", "load", "Produce"],
    "mirrors": ["No mirror copies"],
    "loads": ["The console knows no lake."],
    "messages?topic=events": ["user-1", "committed", "Live tail"],
    "settings": ["log.retention.ms", "num.io.threads"],
    "nowhere": ["No view has this address."],
}


@pytest.mark.parametrize("path", VIEWS)
def test_each_view_shows_the_cluster_in_all_colours_and_widths(viewer, path):
    page = viewer.open(path)
    for text in VIEWS[path]:
        page.get_by_text(text).first.wait_for(state="attached")
    for width in (400, 3840, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        assert viewer.sideways() <= 0, width
    if chromium.axe_missing() is None:
        assert viewer.serious() == []
        page.emulate_media(color_scheme="dark")
        assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
        assert viewer.serious("color-contrast", "link-in-text-block") == []
        page.emulate_media(color_scheme="light")


@pytest.mark.skipif(chromium.axe_missing() is not None, reason=str(chromium.axe_missing()))
def test_the_login_form_and_dialogs_have_no_serious_fault(browser, site, operator):
    stranger = Watched(browser, site[1].base)
    stranger.open("topics")
    assert stranger.serious() == []
    assert not stranger.faults
    stranger.close()
    page = operator.open("topics/events")
    page.get_by_role("button", name="Change").click()
    assert operator.serious() == []
    page.emulate_media(color_scheme="dark")
    assert operator.serious("color-contrast") == []
    page.emulate_media(color_scheme="light")
    page.keyboard.press("Escape")


def test_a_wrong_password_is_refused_in_words(browser, site):
    stranger = Watched(browser, site[1].base)
    page = stranger.open("groups")
    page.get_by_label("User").fill("olga")
    page.get_by_label("Password").fill("guessed")
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("alert").wait_for()
    assert page.get_by_label("Password").input_value() == ""
    # The right one leads to the view that the address names; leaving brings the form back.
    page.get_by_label("Password").fill(PASSWORDS["olga"])
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Groups").wait_for()
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("button", name="Log in").wait_for()
    assert not stranger.faults
    stranger.close()


def test_a_viewer_has_no_actions_and_an_operator_has(viewer, operator):
    actions = {
        "topics": ["Create a topic"],
        "topics/events": ["Change", "Elect leaders", "Move replicas", "Delete"],
        "groups/coordinator/billing": ["Reset offsets"],
    }
    for path, names in actions.items():
        page = viewer.open(path)
        page.get_by_role("table").first.wait_for()
        for name in names:
            assert page.get_by_role("button", name=name, exact=True).count() == 0
        page = operator.open(path)
        for name in names:
            page.get_by_role("button", name=name, exact=True).wait_for()


def test_hostile_messages_are_text_and_nothing_else(viewer):
    page = viewer.open("messages?topic=hostile&from=earliest")
    rows = page.locator("tbody.message")
    rows.nth(5).wait_for()
    for row in range(6):
        rows.nth(row).get_by_role("button").first.click()
    page.get_by_text("Headers").first.wait_for()
    # Markup is what it is, controls and those of direction are seen, bytes have their hex.
    assert page.locator("main script, main img, main style").count() == 0
    shown = page.locator("main").inner_text()
    assert "<script>document.title='taken'" in shown
    assert "\\x1b[2J\\x1b]0;taken\\x07" in shown
    assert "\\u{202e}gnp.exe\\u{202c}" in shown
    assert "\\u{200b}\\u{feff}" in shown
    assert not set(shown) & {"\x1b", "\x07", "\x00", "\u202e", "\u200b", "\ufeff"}
    assert "00 01 02 03 04 05 06 07  08 09 0a" in shown
    assert page.title() == "Messages · zkbroker console"
    # Of 10 MB the beginning is shown, and the whole is to be had.
    large = rows.nth(5).locator("section.value", has_text="of 10.0 MiB")
    assert "the first 64.0 KiB of 10.0 MiB" in large.inner_text()
    assert viewer.nodes() < 1500
    assert len(shown) < 300_000
    with page.expect_download() as started:
        large.get_by_role("link", name="Download").click()
    assert started.value.path().stat().st_size == LARGE_BYTES


def test_messages_are_found_by_offset_time_key_and_content(viewer):
    page = viewer.open("messages")
    page.get_by_label("Topic").fill("events")
    page.get_by_label("Partition").fill("0")
    page.get_by_label("Read", exact=True).select_option("offset")
    page.get_by_label("Offset").fill("7")
    page.get_by_role("button", name="Read", exact=True).click()
    page.wait_for_url(re.compile("from=7"))
    first = page.locator("tbody.message").first
    first.get_by_role("button", name="7", exact=True).click()
    # Numbers that no float holds stay what they are.
    page.get_by_text('"account": 12345678901234567890').wait_for()
    page.get_by_role("button", name="hex").last.click()
    page.get_by_text("00000000  7b 22 6e 75 6d").wait_for()
    before = page.locator("tbody.message button.toggle").first.inner_text()
    page.get_by_role("button", name="Read on").click()
    page.wait_for_function(
        "was => document.querySelector('button.toggle').innerText !== was", arg=before
    )
    for label, value, found in (
        ("Key is", "user-3", "user-3"),
        ("Contains", '"number": 12,', '"number": 12,'),
    ):
        page = viewer.open("messages?topic=events&from=earliest")
        page.get_by_label(label).fill(value)
        page.get_by_label("Read", exact=True).select_option("time")
        page.get_by_label("Time, in your zone").fill("2020-01-01T00:00:00")
        page.get_by_role("button", name="Read", exact=True).click()
        page.wait_for_url(re.compile("2019-12-31T23")) # an hour east of UTC
        rows = page.locator("tbody.message")
        rows.first.wait_for()
        assert all(found in text for text in rows.all_inner_texts())


def test_aborted_and_control_records_are_marked(viewer):
    page = viewer.open("messages?topic=orders&from=earliest")
    page.locator("tbody.message.aborted", has_text="order 1").wait_for()
    page.locator("tbody.message.control").first.wait_for()
    page.locator("tbody.message.committed", has_text="order 0").wait_for()


def test_a_tail_shows_what_comes_and_keeps_little(viewer):
    page = viewer.open("messages?topic=events")
    page.get_by_role("button", name="Live tail").click()
    page.locator("tbody.message", has_text="live").first.wait_for()
    seen = page.locator("tbody.message").count()
    page.wait_for_function(
        "seen => document.querySelectorAll('tbody.message').length > seen", arg=seen
    )
    page.get_by_role("button", name="Pause").click()
    page.get_by_text("paused").wait_for()
    assert page.locator("tbody.message").count() <= 200
    page.get_by_role("button", name="Stop the tail").click()
    page.get_by_text("looked at").wait_for()
