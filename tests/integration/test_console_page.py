"""The console's page in a real browser, over a real cluster with load."""

import re

import pytest

from tests.support import chromium
from tests.support.chromium import Watched, perform, tile
from tests.support.shown_cluster import LARGE_BYTES, PASSWORDS, console_of, shown_cluster

pytestmark = [
    pytest.mark.skipif(chromium.missing() is not None, reason=str(chromium.missing())),
]


@pytest.fixture(scope="module")
def site(local_cluster, tmp_path_factory):
    """A cluster with load, and a console with an operator and a viewer."""
    with shown_cluster(local_cluster) as (cluster, admin_port):
        directory = tmp_path_factory.mktemp("console")
        with console_of(cluster, admin_port, directory / "users") as console:
            yield cluster, console


@pytest.fixture(scope="module")
def browser():
    with chromium.chromium() as started:
        yield started


def logged_in(browser, site, user):
    reader = Watched(browser, site[1].base)
    reader.log_in(user, PASSWORDS[user])
    return reader


@pytest.fixture(scope="module")
def operator_page(browser, site):
    reader = logged_in(browser, site, "olga")
    yield reader
    reader.close()


@pytest.fixture(scope="module")
def viewer_page(browser, site):
    reader = logged_in(browser, site, "victor")
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
    "overview": ["Brokers up", "Messages in", "Problems", "Log directories"],
    "topics": ["events", "orders", "hostile"],
    "topics/events": ["in sync", "billing", "retention.ms", "86400000"],
    "topics/events/partitions/0": ["Segments", "Offsets by time"],
    "groups": ["billing", "classic", "ZooKeeper"],
    "groups/coordinator/billing": ["billing-1", "127.0.0.1", "events-0"],
    "groups/zookeeper/classic": ["events", "40"],
    "clients": ["shop", "load", "Produce"],
    "mirrors": ["No mirror copies"],
    "loads": ["The console has no lake."],
    "messages?topic=events": ["user-1", "committed", "Live tail"],
    "settings": ["auto.create.topics.enable", "while it runs"],
    "nowhere": ["No view has this address."],
}


@pytest.mark.parametrize("path", VIEWS)
def test_every_view_fits_all_widths_and_is_accessible(viewer, path):
    page = viewer.open(path)
    for text in VIEWS[path]:
        page.get_by_text(text).first.wait_for(state="attached")
    for width in (400, 3840, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        viewer.fits(width)
    if chromium.axe_missing() is None:
        assert viewer.serious() == []
        viewer.colours("dark")
        assert viewer.serious("color-contrast", "link-in-text-block") == []
        viewer.colours("light")


@pytest.mark.skipif(chromium.axe_missing() is not None, reason=str(chromium.axe_missing()))
def test_login_form_and_dialogs_are_accessible(browser, site, operator):
    anonymous = Watched(browser, site[1].base)
    anonymous.open("topics")
    assert anonymous.serious() == []
    assert not anonymous.faults
    anonymous.close()
    page = operator.open("topics/events")
    page.get_by_role("button", name="Change").click()
    assert operator.serious() == []
    operator.colours("dark")
    assert operator.serious("color-contrast") == []
    operator.colours("light")
    page.keyboard.press("Escape")


def test_wrong_password_shows_an_alert(browser, site):
    anonymous = Watched(browser, site[1].base)
    page = anonymous.open("groups")
    page.get_by_label("User").fill("olga")
    page.get_by_label("Password").fill("guessed")
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("alert").wait_for()
    assert page.get_by_label("Password").input_value() == ""
    # The right password opens the view of the address; logging out shows the form again.
    page.get_by_label("Password").fill(PASSWORDS["olga"])
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Groups").wait_for()
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("button", name="Log in").wait_for()
    assert not anonymous.faults
    anonymous.close()


def test_only_operators_have_actions(viewer, operator):
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


def test_markup_in_messages_is_shown_as_text(viewer):
    page = viewer.open("messages?topic=hostile&from=earliest")
    rows = page.locator("tbody.message")
    rows.nth(5).wait_for()
    for row in range(6):
        rows.nth(row).get_by_role("button").first.click()
    page.get_by_text("Headers").first.wait_for()
    # Markup and control characters are visible text; other bytes are shown in hex.
    assert page.locator("main script, main img, main style").count() == 0
    shown = page.locator("main").inner_text()
    assert "<script>document.title='taken'" in shown
    assert "\\x1b[2J\\x1b]0;taken\\x07" in shown
    assert "\\u{202e}gnp.exe\\u{202c}" in shown
    assert "\\u{200b}\\u{feff}" in shown
    assert not set(shown) & {"\x1b", "\x07", "\x00", "\u202e", "\u200b", "\ufeff"}
    assert "00 01 02 03 04 05 06 07  08 09 0a" in shown
    assert page.title() == "Messages · zkbroker console"
    # The first bytes of 10 MB are shown, and the whole can be downloaded.
    large = rows.nth(5).locator("section.value", has_text="of 10.0 MiB")
    assert "the first 64.0 KiB of 10.0 MiB" in large.inner_text()
    assert viewer.nodes() < 1500
    assert len(shown) < 300_000
    with page.expect_download() as started:
        large.get_by_role("link", name="Download").click()
    assert started.value.path().stat().st_size == LARGE_BYTES


def test_messages_are_searched_by_offset_time_key_and_content(viewer):
    page = viewer.open("messages")
    page.get_by_label("Topic").fill("events")
    page.get_by_label("Partition").fill("0")
    page.get_by_role("combobox", name="Read").select_option("offset")
    page.get_by_role("spinbutton", name="Offset").fill("7")
    page.get_by_role("button", name="Read", exact=True).click()
    page.wait_for_url(re.compile("from=7"))
    first = page.locator("tbody.message").first
    first.get_by_role("button", name="7", exact=True).click()
    # Numbers beyond the precision of a float are shown exactly.
    page.locator("pre", has_text='"account": 12345678901234567890').wait_for()
    page.get_by_role("button", name="hex").last.click()
    page.locator("pre", has_text="00000000  7b 22 6e 75 6d").wait_for()
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
        page.get_by_role("combobox", name="Read").select_option("time")
        page.get_by_label("Time, in your zone").fill("2020-01-01T00:00:00")
        page.get_by_role("button", name="Read", exact=True).click()
        page.wait_for_url(re.compile("2019-12-31T23"))  # an hour east of UTC
        rows = page.locator("tbody.message")
        rows.first.wait_for()
        assert all(found in text for text in rows.all_inner_texts())


def test_aborted_and_control_records_are_marked(viewer):
    page = viewer.open("messages?topic=orders&from=earliest")
    page.locator("tbody.message.aborted", has_text="order 1").wait_for()
    page.locator("tbody.message.control").first.wait_for()
    page.locator("tbody.message.committed", has_text="order 0").wait_for()


def test_tail_shows_new_messages_and_keeps_at_most_200(viewer):
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


def test_operator_creates_changes_moves_and_deletes_a_topic(operator):
    page = operator.open("topics")

    def new_topic(dialog):
        dialog.get_by_role("textbox", name="Name", exact=True).fill("made.here")
        dialog.get_by_role("spinbutton", name="Partitions").fill("2")
        dialog.get_by_label("Replicas of each").fill("2")
        dialog.get_by_role("textbox", name="Settings").fill("retention.ms=7200000")

    perform(page, "Create a topic", "made.here", "Create the topic", new_topic)
    page.get_by_role("status").get_by_text("Topic made.here was created.").wait_for()
    page.get_by_role("heading", name="made.here").wait_for()
    page.get_by_text("7200000").wait_for()

    def changes(dialog):
        dialog.get_by_role("spinbutton", name="Partitions").fill("3")
        dialog.get_by_role("textbox", name="Settings").fill(
            "retention.ms=\nmax.message.bytes=2000000"
        )

    perform(page, "Change", "made.here", "Change the topic", changes)
    page.get_by_role("link", name="2", exact=True).first.wait_for()  # the third partition
    page.get_by_text("2000000").wait_for()

    def to_broker(number, limit=""):
        def fill(dialog):
            dialog.get_by_role("combobox", name="Way").select_option("assignment")
            lines = "\n".join(f"{each}: {number}" for each in range(3))
            dialog.get_by_role("textbox", name="Assignment").fill(lines)
            dialog.get_by_role("spinbutton", name="Limit").fill(limit)

        perform(page, "Move replicas", "made.here", "Move the replicas", fill)
        page.wait_for_function(
            """number => [...document.querySelectorAll("[aria-labelledby=partitions] tbody tr")]
                .map(row => row.cells[3].innerText).join("|") === `${number}|${number}|${number}`
            """,
            arg=number,
        )

    to_broker(1)
    to_broker(2, "50000000")
    perform(page, "Remove the limit", "made.here", "Remove the limit")
    page.get_by_role("button", name="Remove the limit").wait_for(state="detached")
    perform(page, "Elect leaders", "made.here", "Elect preferred leaders", lambda dialog: None)
    perform(page, "Delete", "made.here", "Delete the topic")
    page.get_by_role("heading", name="Topics").wait_for()
    page.get_by_role("link", name="made.here").wait_for(state="detached")


def test_operator_resets_offsets(operator):
    page = operator.open("groups/zookeeper/classic")

    def to_the_first(dialog):
        dialog.get_by_role("combobox", name="Go to").select_option("offset")
        dialog.get_by_role("spinbutton", name="Number").fill("7")
        dialog.get_by_role("spinbutton", name="Partition").fill("0")

    perform(page, "Reset offsets", "classic", "Reset the offsets", to_the_first)
    page.get_by_role("status").get_by_text("Offsets of classic were reset.").wait_for()
    page.get_by_role("cell", name="7", exact=True).wait_for()


def test_refused_action_shows_its_reason_and_can_be_corrected(operator):
    page = operator.open("topics")
    page.get_by_role("button", name="Create a topic").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Name", exact=True).fill("events")
    dialog.get_by_role("textbox", name="Settings").fill("no setting")
    dialog.get_by_role("button", name="Show the plan").click()
    dialog.get_by_role("alert").get_by_text("name=value").wait_for()
    dialog.get_by_role("textbox", name="Settings").fill("")
    dialog.get_by_role("button", name="Show the plan").click()
    dialog.get_by_role("alert").get_by_text("exists").wait_for()
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")


def test_page_works_by_keyboard(viewer):
    page = viewer.open("overview")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.innerText") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.id") == "main"
    page.keyboard.press("/")
    page.wait_for_function("() => document.activeElement.type === 'search'")
    page.keyboard.type("ord")
    # The list is fetched once typing pauses.
    page.wait_for_url("**search=ord*")
    page.get_by_role("link", name="orders").wait_for()
    page.get_by_role("link", name="events").wait_for(state="detached")
    page.get_by_role("button", name="Partitions").focus()
    page.keyboard.press("Enter")
    page.locator("th[aria-sort=descending]", has_text="Partitions").wait_for()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    dialog.wait_for()
    for _ in range(5):
        page.keyboard.press("Tab")
        assert page.evaluate(
            "() => document.activeElement === document.body ||"
            " document.activeElement.closest('dialog') !== null"
        )
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    page.keyboard.press("g")
    page.keyboard.press("g")
    page.get_by_role("heading", name="Groups").wait_for()
    page.wait_for_function("() => document.activeElement.tagName === 'H1'")
    page.go_back()
    page.get_by_role("heading", name="Topics").wait_for()


def test_times_are_local_and_the_theme_is_kept(viewer):
    page = viewer.open("overview")
    shown = page.locator("[aria-labelledby=brokers] time").first
    shown.wait_for()
    utc = shown.get_attribute("datetime")
    local = page.evaluate(
        "utc => new Date(utc).toLocaleString('sv-SE', { timeZone: 'Europe/Berlin' })", utc
    )
    assert shown.inner_text() == local
    assert shown.get_attribute("title") == f"{utc} (UTC)"
    page.get_by_text("Times are in Europe/Berlin").wait_for()
    page.get_by_label("Colours").select_option("dark")
    page.reload()
    page.locator(":root[data-theme=dark]").wait_for()
    page.get_by_label("Colours").select_option("auto")
    page.locator(":root[data-theme=light]").wait_for()


def test_broker_serves_the_page_below_a_prefix(browser, site):
    _, console = site
    mounted = Watched(browser, console.admin_page)
    page = mounted.open("console/")
    page.get_by_role("heading", name="Overview").wait_for()
    page.get_by_role("link", name="Topics").click()
    page.get_by_role("link", name="events").click()
    page.get_by_role("heading", name="events").wait_for()
    assert page.url.endswith("/console/topics/events")
    assert mounted.loads == 1
    page.reload()
    page.locator(".state.ok", has_text="in sync").first.wait_for()
    assert page.get_by_role("button", name="Delete").count() == 0
    assert not mounted.faults
    mounted.close()


# The next tests change the cluster of the others.


def test_open_page_follows_a_broker_failure_and_restart(viewer, site):
    cluster, _ = site
    page = viewer.open("overview")
    tile(page, "Brokers up").get_by_text("2", exact=True).wait_for()
    loads = viewer.loads
    cluster.broker(2).kill()
    page.locator("tr.down").get_by_text("down").wait_for()
    tile(page, "Brokers up").get_by_text("1", exact=True).wait_for()
    page.locator(".problems .state.error, .problems .state.warning").first.wait_for()
    cluster.broker(2).start()
    page.locator("tr.down").wait_for(state="detached")
    tile(page, "Brokers up").get_by_text("2", exact=True).wait_for()
    tile(page, "Under-replicated").get_by_text("0", exact=True).wait_for()
    assert viewer.loads == loads


def test_page_shows_a_lost_connection_and_reconnects(viewer, site):
    page = viewer.open("overview")
    page.locator(".live .state.ok").wait_for()
    loads = viewer.loads
    viewer.context.set_offline(True)
    page.get_by_text(re.compile(r"Not live since \d\d:\d\d:\d\d")).wait_for()
    page.locator(".live .state.error").wait_for()
    viewer.context.set_offline(False)
    page.get_by_text("Not live since").wait_for(state="detached")
    page.locator(".live .state.ok").wait_for()
    # After the console has ended, the last state stays on the page.
    site[1].process.kill()
    page.get_by_text("Not live since").wait_for()
    assert page.get_by_role("cell", name="up").count() == 2
    assert viewer.loads == loads
