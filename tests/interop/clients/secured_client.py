"""Records there and back with a login or TLS: `python secured_client.py LIBRARY < jobs`.

See `tests/interop/secured.py` for the jobs. Prints `{"read": [...]}` or `{"error": "..."}` of each.
"""

import json
import sys
import time

TIMEOUT_S = 120


def confluent(job):
    import confluent_kafka

    settings = {
        "bootstrap.servers": job["bootstrap"],
        "security.protocol": job["protocol"],
        "socket.timeout.ms": 60_000,
        "reconnect.backoff.ms": 50,
    }
    if job["ca"]:
        settings["ssl.ca.location"] = job["ca"]
    errors = []
    if job["mechanism"]:
        settings["sasl.mechanisms"] = job["mechanism"]
        if job["token"]:
            settings["oauth_cb"] = lambda _: (job["token"], time.time() + 3600)
        else:
            settings |= {"sasl.username": job["user"], "sasl.password": job["password"]}

    def failed(error):
        if error.code() == confluent_kafka.KafkaError._AUTHENTICATION:
            errors.append(str(error))

    producer = confluent_kafka.Producer(settings | {"error_cb": failed})
    producer.produce(job["topic"], job["value"].encode())
    until = time.monotonic() + TIMEOUT_S
    while len(producer) and not errors and time.monotonic() < until:
        producer.poll(0.1)
    if errors or len(producer):
        producer.purge()
        raise RuntimeError(errors[0] if errors else "not delivered")
    consumer = confluent_kafka.Consumer(
        settings | {"group.id": job["group"], "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([job["topic"]])
    found = []
    while job["value"] not in found and time.monotonic() < until:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            found.append(message.value().decode())
    consumer.close()
    return found


def kafka_python(job):
    import kafka

    class Tokens:
        def token(self):
            return job["token"]

        def extensions(self):
            return {}

        def close(self):
            pass

    try:
        from kafka.net.sasl.oauth import AbstractTokenProvider
    except ImportError:
        try:
            from kafka.sasl.oauth import AbstractTokenProvider
        except ImportError:
            from kafka.oauth.abstract import AbstractTokenProvider

    provider = type("Provider", (Tokens, AbstractTokenProvider), {})
    settings = {"bootstrap_servers": job["bootstrap"], "security_protocol": job["protocol"]}
    if job["ca"]:
        settings["ssl_cafile"] = job["ca"]
    if job["mechanism"]:
        settings["sasl_mechanism"] = job["mechanism"]
        if job["token"]:
            settings["sasl_oauth_token_provider"] = provider()
        else:
            settings["sasl_plain_username"] = job["user"]
            settings["sasl_plain_password"] = job["password"]
    producer = kafka.KafkaProducer(**settings)
    producer.send(job["topic"], job["value"].encode()).get(TIMEOUT_S)
    producer.close()
    consumer = kafka.KafkaConsumer(
        job["topic"],
        group_id=job["group"],
        auto_offset_reset="earliest",
        consumer_timeout_ms=TIMEOUT_S * 1000,
        **settings,
    )
    found = []
    for message in consumer:
        found.append(message.value.decode())
        if found[-1] == job["value"]:
            break
    consumer.close()
    return found


def aiokafka(job):
    import asyncio
    import ssl

    import aiokafka
    from aiokafka.abc import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):
        async def token(self):
            return job["token"]

    async def there_and_back():
        settings = {"bootstrap_servers": job["bootstrap"], "security_protocol": job["protocol"]}
        if job["ca"]:
            settings["ssl_context"] = ssl.create_default_context(cafile=job["ca"])
        if job["mechanism"]:
            settings["sasl_mechanism"] = job["mechanism"]
            if job["token"]:
                settings["sasl_oauth_token_provider"] = Tokens()
            else:
                settings["sasl_plain_username"] = job["user"]
                settings["sasl_plain_password"] = job["password"]
        async with aiokafka.AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait(job["topic"], job["value"].encode())
        consumer = aiokafka.AIOKafkaConsumer(
            job["topic"], group_id=job["group"], auto_offset_reset="earliest", **settings
        )
        found = []
        async with consumer:
            async with asyncio.timeout(TIMEOUT_S):
                while job["value"] not in found:
                    found.append((await consumer.getone()).value.decode())
        return found

    return asyncio.run(there_and_back())


def main():
    libraries = {"confluent": confluent, "aiokafka": aiokafka}
    results = []
    for job in json.load(sys.stdin):
        try:
            results.append({"read": libraries.get(sys.argv[1], kafka_python)(job)})
        except Exception as error:  # noqa: BLE001 - the test reads it
            results.append({"error": f"{type(error).__name__}: {error}"})
    print(json.dumps(results))


main()
