"""Versions of requests between brokers, for each level of the settings."""

import itertools

import pytest

from zkbroker.config.levels import LEVEL_SPELLINGS, LEVELS
from zkbroker.protocol.api import BROKER_VERSIONS
from zkbroker.protocol.inter_broker import INTER_BROKER_VERSIONS


def test_every_inter_broker_level_has_versions():
    assert tuple(INTER_BROKER_VERSIONS) == LEVELS
    assert set(LEVEL_SPELLINGS.values()) == set(LEVELS)


@pytest.mark.parametrize("level", LEVELS)
def test_sent_versions_are_supported(level):
    for api_key, version in INTER_BROKER_VERSIONS[level].items():
        lowest, highest = BROKER_VERSIONS[api_key]
        assert lowest <= version <= highest


def test_versions_do_not_fall_with_level():
    for older, newer in itertools.pairwise(LEVELS):
        for api_key, version in INTER_BROKER_VERSIONS[older].items():
            assert INTER_BROKER_VERSIONS[newer][api_key] >= version
