import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Partitioner;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidTimestampException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The genuine producer: java ProducerChecks BOOTSTRAP [CHECK]. */
final class ProducerChecks {
    private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");
    /** Soon enough for retention to leave the records alone. */
    private static final long TIMESTAMP = System.currentTimeMillis() - 1_000_000;

    private static String bootstrap;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        Checks checks = new Checks(arguments.length > 1 ? arguments[1] : null);
        for (String codec : CODECS) {
            checks.check("round-trip-" + codec, () -> roundTrip(codec));
        }
        for (String acks : List.of("0", "1", "all")) {
            checks.check("acks-" + acks, () -> acks(acks));
        }
        checks.check("idempotent-order", ProducerChecks::idempotentOrder);
        checks.check("keys-choose-partitions", ProducerChecks::keysChoosePartitions);
        checks.check("sticky-fills-all-partitions", ProducerChecks::stickyFillsAllPartitions);
        checks.check("own-partitioner", ProducerChecks::ownPartitioner);
        checks.check("too-large-for-the-client", ProducerChecks::tooLargeForTheClient);
        checks.check("too-large-for-the-broker", ProducerChecks::tooLargeForTheBroker);
        checks.check("too-large-batch-is-split", ProducerChecks::tooLargeBatchIsSplit);
        checks.check("invalid-topic", ProducerChecks::invalidTopic);
        checks.check("unknown-topic-is-created", ProducerChecks::unknownTopicIsCreated);
        checks.check("unknown-partition", ProducerChecks::unknownPartition);
        checks.check("log-append-time", ProducerChecks::logAppendTime);
        checks.check("timestamp-too-far", ProducerChecks::timestampTooFar);
        checks.check("transactions", ProducerChecks::transactions);
        checks.check("metrics", ProducerChecks::metrics);
        checks.finish();
    }

    private static Properties settings(Object... more) {
        Properties properties = Checks.properties(
                "bootstrap.servers", bootstrap,
                "key.serializer", ByteArraySerializer.class.getName(),
                "value.serializer", ByteArraySerializer.class.getName());
        properties.putAll(Checks.properties(more));
        return properties;
    }

    private static String topic(int partitions, Map<String, String> configs) throws Exception {
        String name = "java-" + System.nanoTime();
        try (Admin admin = Admin.create(Checks.properties("bootstrap.servers", bootstrap))) {
            NewTopic topic = new NewTopic(name, partitions, (short) 1).configs(configs);
            admin.createTopics(List.of(topic)).all().get();
        }
        return name;
    }

    static List<ConsumerRecord<byte[], byte[]>> read(
            String topic, int partitions, int count, Object... more) throws Exception {
        Properties properties = Checks.properties(
                "bootstrap.servers", bootstrap,
                "auto.offset.reset", "earliest",
                "enable.auto.commit", "false",
                "key.deserializer", ByteArrayDeserializer.class.getName(),
                "value.deserializer", ByteArrayDeserializer.class.getName());
        properties.putAll(Checks.properties(more));
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties)) {
            List<TopicPartition> assigned = new ArrayList<>();
            for (int partition = 0; partition < partitions; partition++) {
                assigned.add(new TopicPartition(topic, partition));
            }
            consumer.assign(assigned);
            consumer.seekToBeginning(assigned);
            Checks.await(count + " records", () -> {
                consumer.poll(Duration.ofMillis(200)).forEach(records::add);
                return records.size() >= count;
            });
        }
        Checks.same(count, records.size());
        return records;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Every shape of a record, read back byte for byte. */
    private static void roundTrip(String codec) throws Exception {
        String topic = topic(1, Map.of());
        byte[][] keys = {null, {}, bytes("k"), {0, -1, 127}, bytes("key".repeat(100))};
        byte[][] values = {null, {}, bytes("v"), {0, -1, 127}, bytes("value".repeat(1000))};
        List<ProducerRecord<byte[], byte[]>> sent = new ArrayList<>();
        for (byte[] key : keys) {
            for (byte[] value : values) {
                List<Header> headers = new ArrayList<>();
                for (int i = 0; i < sent.size() % 4; i++) {
                    headers.add(new RecordHeader("h" + i, i == 1 ? null : bytes("ü" + i)));
                }
                sent.add(new ProducerRecord<>(topic, 0, TIMESTAMP + sent.size() * 7L, key, value, headers));
            }
        }
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings("compression.type", codec, "linger.ms", "50"))) {
            List<Future<RecordMetadata>> futures = new ArrayList<>();
            for (int round = 0; round < 3; round++) {
                sent.forEach(record -> futures.add(producer.send(record)));
                producer.flush();
            }
            for (int i = 0; i < futures.size(); i++) {
                Checks.holds(futures.get(i).isDone(), "flush returned before " + i + " was done");
                RecordMetadata metadata = futures.get(i).get();
                Checks.same((long) i, metadata.offset());
                Checks.same(sent.get(i % sent.size()).timestamp(), metadata.timestamp());
            }
        }
        List<ConsumerRecord<byte[], byte[]>> seen = read(topic, 1, 3 * sent.size());
        for (int i = 0; i < seen.size(); i++) {
            ProducerRecord<byte[], byte[]> expected = sent.get(i % sent.size());
            ConsumerRecord<byte[], byte[]> record = seen.get(i);
            Checks.same((long) i, record.offset());
            Checks.same(expected.key(), record.key());
            Checks.same(expected.value(), record.value());
            Checks.same(expected.timestamp(), record.timestamp());
            Checks.same(Arrays.asList(expected.headers().toArray()), Arrays.asList(record.headers().toArray()));
        }
    }

    private static void acks(String acks) throws Exception {
        String topic = topic(3, Map.of());
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings("acks", acks, "linger.ms", "5"))) {
            for (int i = 0; i < 3000; i++) {
                producer.send(new ProducerRecord<>(topic, i % 3, null, bytes("" + i)));
            }
        }
        List<ConsumerRecord<byte[], byte[]>> seen = read(topic, 3, 3000);
        boolean[] had = new boolean[3000];
        for (ConsumerRecord<byte[], byte[]> record : seen) {
            int number = Integer.parseInt(new String(record.value(), StandardCharsets.UTF_8));
            Checks.holds(!had[number], number + " was read twice");
            had[number] = true;
        }
    }

    /** Idempotence is on unless told otherwise: five requests in flight, and still in order. */
    private static void idempotentOrder() throws Exception {
        String topic = topic(1, Map.of());
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings("batch.size", "200", "linger.ms", "0"))) {
            for (int i = 0; i < 5000; i++) {
                producer.send(new ProducerRecord<>(topic, bytes("" + i)));
            }
        }
        List<ConsumerRecord<byte[], byte[]>> seen = read(topic, 1, 5000);
        for (int i = 0; i < 5000; i++) {
            Checks.same("" + i, new String(seen.get(i).value(), StandardCharsets.UTF_8));
        }
    }

    /** Prints `key PARTITION KEY` for the test module, which compares with our own partitioner. */
    private static void keysChoosePartitions() throws Exception {
        String topic = topic(12, Map.of());
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings())) {
            List<Future<RecordMetadata>> futures = new ArrayList<>();
            for (int i = 0; i < 500; i++) {
                futures.add(producer.send(new ProducerRecord<>(topic, key(i), bytes("v"))));
            }
            for (int i = 0; i < 500; i++) {
                String hex = java.util.HexFormat.of().formatHex(key(i));
                Checks.say("key", String.valueOf(futures.get(i).get().partition()), hex);
            }
        }
    }

    private static byte[] key(int number) {
        byte[] key = new byte[number % 23];
        for (int i = 0; i < key.length; i++) {
            key[i] = (byte) (number * 31 + i * 17);
        }
        return key;
    }

    private static void stickyFillsAllPartitions() throws Exception {
        String topic = topic(4, Map.of());
        AtomicInteger[] counts = new AtomicInteger[4];
        Arrays.setAll(counts, i -> new AtomicInteger());
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings(
                        "batch.size", "1000", "linger.ms", "1", "partitioner.adaptive.partitioning.enable", "false"))) {
            for (int i = 0; i < 4000; i++) {
                producer.send(new ProducerRecord<>(topic, bytes("value " + i)),
                        (metadata, error) -> counts[metadata.partition()].incrementAndGet());
            }
        }
        int sum = 0;
        for (AtomicInteger count : counts) {
            Checks.holds(count.get() > 0, "a partition got nothing");
            sum += count.get();
        }
        Checks.same(4000, sum);
    }

    public static final class LastPartition implements Partitioner {
        @Override
        public int partition(String topic, Object key, byte[] keyBytes, Object value, byte[] valueBytes, Cluster cluster) {
            return cluster.partitionsForTopic(topic).size() - 1;
        }

        @Override
        public void close() {}

        @Override
        public void configure(Map<String, ?> configs) {}
    }

    private static void ownPartitioner() throws Exception {
        String topic = topic(5, Map.of());
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings("partitioner.class", LastPartition.class.getName()))) {
            Checks.same(5, producer.partitionsFor(topic).size());
            Checks.same(4, producer.send(new ProducerRecord<>(topic, bytes("v"))).get().partition());
        }
    }

    private static void tooLargeForTheClient() throws Exception {
        String topic = topic(1, Map.of());
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings("max.request.size", "1000"))) {
            Checks.raises(RecordTooLargeException.class,
                    () -> producer.send(new ProducerRecord<>(topic, new byte[2000])).get());
        }
    }

    private static void tooLargeForTheBroker() throws Exception {
        String topic = topic(1, Map.of("max.message.bytes", "10000"));
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings())) {
            Checks.raises(RecordTooLargeException.class,
                    () -> producer.send(new ProducerRecord<>(topic, new byte[20000])).get());
            Checks.same(0L, producer.send(new ProducerRecord<>(topic, new byte[10])).get().offset());
        }
    }

    /** Error 10 for a batch of several records: the producer splits it and sends the parts. */
    private static void tooLargeBatchIsSplit() throws Exception {
        String topic = topic(1, Map.of("max.message.bytes", "5000"));
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings("batch.size", "4000", "linger.ms", "200", "compression.type", "gzip"))) {
            java.util.Random random = new java.util.Random(7);
            List<Future<RecordMetadata>> futures = new ArrayList<>();
            for (int i = 0; i < 200; i++) {
                byte[] value = new byte[400];
                random.nextBytes(value);
                futures.add(producer.send(new ProducerRecord<>(topic, value)));
            }
            producer.flush();
            for (Future<RecordMetadata> future : futures) {
                future.get();
            }
        }
        read(topic, 1, 200);
    }

    private static void invalidTopic() throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings("max.block.ms", "10000"))) {
            Checks.raises(InvalidTopicException.class,
                    () -> producer.send(new ProducerRecord<>("not a/topic", bytes("v"))).get());
        }
    }

    private static void unknownTopicIsCreated() throws Exception {
        String topic = "java-new-" + System.nanoTime();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings())) {
            Checks.same(0L, producer.send(new ProducerRecord<>(topic, bytes("v"))).get().offset());
        }
    }

    private static void unknownPartition() throws Exception {
        String topic = topic(1, Map.of());
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings("max.block.ms", "1500"))) {
            Checks.raises(TimeoutException.class,
                    () -> producer.send(new ProducerRecord<>(topic, 7, null, bytes("v"))).get());
        }
    }

    private static void logAppendTime() throws Exception {
        String topic = topic(1, Map.of("message.timestamp.type", "LogAppendTime"));
        long before = System.currentTimeMillis();
        RecordMetadata metadata;
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings("compression.type", "lz4"))) {
            metadata = producer.send(new ProducerRecord<>(topic, 0, TIMESTAMP, null, bytes("v"))).get();
        }
        Checks.holds(metadata.timestamp() >= before - 1000, "answered with time " + metadata.timestamp());
        ConsumerRecord<byte[], byte[]> record = read(topic, 1, 1).get(0);
        Checks.same(metadata.timestamp(), record.timestamp());
        Checks.same("LogAppendTime", record.timestampType().toString());
    }

    private static void timestampTooFar() throws Exception {
        String topic = topic(1, Map.of("message.timestamp.difference.max.ms", "1000"));
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings())) {
            Checks.raises(InvalidTimestampException.class,
                    () -> producer.send(new ProducerRecord<>(topic, 0, TIMESTAMP, null, bytes("v"))).get());
        }
    }

    /** What was aborted is never seen by readers of committed messages; an instance fences the one before. */
    private static void transactions() throws Exception {
        String topic = topic(1, Map.of());
        String id = "tx-" + System.nanoTime();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings("transactional.id", id))) {
            producer.initTransactions();
            for (String text : List.of("first", "aborted", "last")) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, bytes(text))).get();
                if (text.equals("aborted")) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
            List<String> found = new ArrayList<>();
            for (ConsumerRecord<byte[], byte[]> record : read(topic, 1, 2, "isolation.level", "read_committed")) {
                found.add(new String(record.value(), StandardCharsets.UTF_8));
            }
            Checks.same(List.of("first", "last"), found);
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, bytes("fenced"))).get();
            try (KafkaProducer<byte[], byte[]> next =
                    new KafkaProducer<>(settings("transactional.id", id))) {
                next.initTransactions();
                Checks.raises(ProducerFencedException.class, producer::commitTransaction);
            }
        }
    }

    private static void metrics() throws Exception {
        String topic = topic(1, Map.of());
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings())) {
            producer.send(new ProducerRecord<>(topic, bytes("v"))).get();
            double sent = producer.metrics().entrySet().stream()
                    .filter(entry -> entry.getKey().name().equals("record-send-total")
                            && entry.getKey().group().equals("producer-metrics"))
                    .mapToDouble(entry -> (Double) entry.getValue().metricValue())
                    .sum();
            Checks.same(1.0, sent);
        }
    }
}
