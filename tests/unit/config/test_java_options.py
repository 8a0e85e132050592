"""KAFKA_OPTS with Java properties, as start scripts of genuine brokers set it."""

import pytest

from zkbroker.config.java_options import java_properties
from zkbroker.errors import ConfigError


def test_login_and_tls_properties_are_read():
    given = (
        '-Xmx1g -Djava.security.auth.login.config="/etc/my kafka/jaas.conf" -Dfile.encoding=UTF-8 '
        "-Dzookeeper.sasl.clientconfig=Zk -Dzookeeper.client.secure=true -Dzookeeper.sasl.client "
        "-Dzookeeper.ssl.trustStore.location=/t.pem"
    )
    assert java_properties({"KAFKA_OPTS": given}) == {
        "java.security.auth.login.config": "/etc/my kafka/jaas.conf",
        "zookeeper.sasl.clientconfig": "Zk",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": "/t.pem",
    }
    assert java_properties({}) == {}


def test_unclosed_quote_is_refused():
    with pytest.raises(ConfigError, match="KAFKA_OPTS cannot be read: No closing quotation"):
        java_properties({"KAFKA_OPTS": '-Dx="'})
