"""The console's page in a real browser, over a real cluster with load."""

import pytest

from tests.support import chromium
from tests.support.chromium import Watched
from tests.support.consoles import running_console
from tests.support.shown_cluster import shown_cluster
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
    "overview": ["Brokers up", "Messages in", "Problems", "Log directories"],
    "topics": ["events", "orders", "hostile"],
    "topics/events": ["in sync", "billing", "retention.ms", "86400000"],
    "groups": ["billing", "classic", "ZooKeeper"],
    "groups/coordinator/billing": ["billing-1", "127.0.0.1", "events-0"],
    "groups/zookeeper/classic": ["events", "40"],
    "nowhere": ["No view has this address."],
}


@pytest.mark.parametrize("path", VIEWS)
def test_each_view_shows_the_cluster_in_all_colours_and_widths(viewer, path):
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
def test_the_login_form_and_dialogs_have_no_serious_fault(browser, site, operator):
    stranger = Watched(browser, site[1].base)
    stranger.open("topics")
    assert stranger.serious() == []
    assert not stranger.faults
    stranger.close()
    page = operator.open("topics/events")
    page.get_by_role("button", name="Change").click()
    assert operator.serious() == []
    operator.colours("dark")
    assert operator.serious("color-contrast") == []
    operator.colours("light")
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
