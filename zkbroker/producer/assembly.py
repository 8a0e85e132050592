"""The parts of a producer, made from its configuration."""

from collections.abc import Sequence

from zkbroker.client import Cluster, SingleAddressSource, StaticSource, ZooKeeperSource
from zkbroker.client.source import ClusterSource
from zkbroker.config import load_properties
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer import plugins
from zkbroker.producer.hooks import Hooks
from zkbroker.runtime import Runtime


def make_cluster(config: ProducerConfig, runtime: Runtime) -> Cluster:
    """Return the cluster that a configuration names; not started."""
    source: ClusterSource
    if config.zookeeper_connect:
        source = ZooKeeperSource(
            config.zookeeper_connect,
            session_timeout_ms=config.zookeeper_session_timeout_ms,
            connect_timeout_ms=config.zookeeper_connect_timeout_ms,
            security=config.security.zookeeper,
        )
    elif config.broker_address:
        source = SingleAddressSource(config.broker_address[0])
    else:
        source = StaticSource(config.broker_list)
    return Cluster(
        source,
        runtime=runtime,
        client_id=config.client_id,
        max_age_ms=config.metadata_max_age_ms,
        request_timeout_ms=config.request_timeout_ms,
        connect_timeout_ms=config.connect_timeout_ms,
        send_buffer_bytes=config.send_buffer_bytes,
        receive_buffer_bytes=config.receive_buffer_bytes,
        security=config.security,
    )


def make_hooks(
    config: ProducerConfig,
    runtime: Runtime,
    *,
    partitioner: object,
    encoder: object,
    key_encoder: object,
    event_handler: object,
    callback_handler: object,
    interceptors: Sequence[object],
) -> Hooks:
    """Return the user's plug-ins: objects that were given win over names in properties.

    Raises:
        ConfigError: a plug-in cannot be found or used.
    """
    values = plugins.resolve("encoder", config.encoder if encoder is None else encoder)
    keys = key_encoder if key_encoder is not None else config.key_encoder
    handler = callback_handler if callback_handler is not None else config.callback_handler
    events = event_handler if event_handler is not None else config.event_handler
    hooks = Hooks(
        runtime=runtime,
        encoder=values,
        key_encoder=plugins.resolve("encoder", keys) if keys else values,
        partitioner=plugins.resolve(
            "partitioner", config.partitioner if partitioner is None else partitioner
        ),
        event_handler=plugins.resolve("event_handler", events) if events else None,
        callback_handler=plugins.resolve("callback_handler", handler) if handler else None,
        interceptors=[
            plugins.resolve("interceptor", each) for each in interceptors or config.interceptors
        ],
    )
    for plugin, path in (
        (hooks.event_handler, config.event_handler_properties),
        (hooks.callback_handler, config.callback_handler_properties),
    ):
        init = getattr(plugin, "init", None)
        if init is not None:
            init(load_properties(path) if path else {})
    return hooks
