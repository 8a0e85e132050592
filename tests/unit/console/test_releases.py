from zkbroker.console.releases import SINCE, oldest, order, since
from zkbroker.protocol import SUPPORTED_VERSIONS, ApiKey


def test_release_of_a_version():
    assert since(ApiKey.PRODUCE, 0) == "0.8"
    assert since(ApiKey.FETCH, 4) == "0.11"
    assert since(ApiKey.METADATA, 5) == "1.0"
    assert since(ApiKey.FETCH, 99) == SINCE[ApiKey.FETCH][-1]
    assert since(999, 0) is None
    assert since(ApiKey.LEADER_AND_ISR, 0) is None


def test_releases_of_each_api_never_decrease():
    for key, (_, last) in SUPPORTED_VERSIONS.items():
        assert len(SINCE[key]) > last, key
        assert list(SINCE[key]) == sorted(SINCE[key], key=order), key


def test_oldest_data_request_decides_the_release_of_a_client():
    modern = [(ApiKey.FIND_COORDINATOR, 0), (ApiKey.FETCH, 10), (ApiKey.METADATA, 7)]
    assert oldest(modern) == "2.1"
    assert oldest([*modern, (ApiKey.PRODUCE, 0)]) == "0.8"
    assert oldest([(ApiKey.HEARTBEAT, 0)]) == "0.9"
    assert oldest([(999, 0)]) is None


def test_releases_are_ordered_by_number():
    releases = ["0.10.0", "2.1", "0.9", "0.8.2", "0.8"]
    assert sorted(releases, key=order) == ["0.8", "0.8.2", "0.9", "0.10.0", "2.1"]
