import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.NoOffsetForPartitionException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The genuine consumer: java ConsumerChecks BOOTSTRAP [CHECK]. */
final class ConsumerChecks {
    /** Soon enough for retention to leave the records alone. */
    private static final long TIMESTAMP = System.currentTimeMillis() - 1_000_000;
    private static final Duration POLL = Duration.ofMillis(100);

    private static String bootstrap;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        Checks checks = new Checks(arguments.length > 1 ? arguments[1] : null);
        checks.check("seek-and-offsets", ConsumerChecks::seekAndOffsets);
        checks.check("offsets-for-times", ConsumerChecks::offsetsForTimes);
        checks.check("read-committed", ConsumerChecks::readCommitted);
        checks.check("pause-and-resume", ConsumerChecks::pauseAndResume);
        checks.check("small-fetches", ConsumerChecks::smallFetches);
        checks.check("many-partitions", ConsumerChecks::manyPartitions);
        checks.check("out-of-range", ConsumerChecks::outOfRange);
        checks.check("no-offset", ConsumerChecks::noOffset);
        checks.check("commit-and-committed", ConsumerChecks::commitAndCommitted);
        checks.check("auto-commit", ConsumerChecks::autoCommit);
        checks.check("wakeup", ConsumerChecks::wakeup);
        checks.check("long-poll-wakes", ConsumerChecks::longPollWakes);
        for (Class<?> assignor : List.of(
                RangeAssignor.class, RoundRobinAssignor.class, StickyAssignor.class, CooperativeStickyAssignor.class)) {
            checks.check("two-members-" + assignor.getSimpleName(), () -> twoMembers(assignor));
        }
        checks.check("pattern-finds-new-topics", ConsumerChecks::patternFindsNewTopics);
        checks.check("more-partitions-are-found", ConsumerChecks::morePartitionsAreFound);
        checks.check("expelled-when-slow", ConsumerChecks::expelledWhenSlow);
        checks.check("static-membership-refused", ConsumerChecks::staticMembershipRefused);
        checks.check("consumer-protocol-refused", ConsumerChecks::consumerProtocolRefused);
        checks.check("list-topics", ConsumerChecks::listTopics);
        checks.finish();
    }

    private static Properties settings(Object... more) {
        Properties properties = Checks.properties(
                "bootstrap.servers", bootstrap,
                "auto.offset.reset", "earliest",
                "enable.auto.commit", "false",
                "metadata.max.age.ms", "500",
                "key.deserializer", ByteArrayDeserializer.class.getName(),
                "value.deserializer", ByteArrayDeserializer.class.getName());
        properties.putAll(Checks.properties(more));
        return properties;
    }

    private static KafkaConsumer<byte[], byte[]> consumer(Object... more) {
        return new KafkaConsumer<>(settings(more));
    }

    private static Admin admin() {
        return Admin.create(Checks.properties("bootstrap.servers", bootstrap));
    }

    private static String fresh() {
        return "java-" + System.nanoTime();
    }

    private static String topic(int partitions) throws Exception {
        return topic(fresh(), partitions);
    }

    private static String topic(String name, int partitions) throws Exception {
        try (Admin admin = admin()) {
            admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1))).all().get();
        }
        return name;
    }

    /** Write `count` numbered records a partition, one a second of record time. */
    private static void write(String topic, int partitions, int count, int bytes) {
        Properties properties = Checks.properties(
                "bootstrap.servers", bootstrap,
                "linger.ms", "5",
                "key.serializer", ByteArraySerializer.class.getName(),
                "value.serializer", ByteArraySerializer.class.getName());
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            for (int i = 0; i < count; i++) {
                byte[] key = ("" + i).getBytes(StandardCharsets.UTF_8);
                for (int partition = 0; partition < partitions; partition++) {
                    producer.send(new ProducerRecord<>(topic, partition, TIMESTAMP + i * 1000L, key, new byte[bytes]));
                }
            }
        }
    }

    private static Set<TopicPartition> partitions(String topic, int count) {
        Set<TopicPartition> partitions = new HashSet<>();
        for (int partition = 0; partition < count; partition++) {
            partitions.add(new TopicPartition(topic, partition));
        }
        return partitions;
    }

    private static List<ConsumerRecord<byte[], byte[]>> poll(KafkaConsumer<byte[], byte[]> consumer, int count)
            throws Exception {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        Checks.await(count + " records", () -> {
            consumer.poll(POLL).forEach(records::add);
            return records.size() >= count;
        });
        return records;
    }

    private static void seekAndOffsets() throws Exception {
        String topic = topic(2);
        write(topic, 2, 50, 10);
        TopicPartition first = new TopicPartition(topic, 0);
        TopicPartition second = new TopicPartition(topic, 1);
        try (Admin admin = admin(); KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            admin.deleteRecords(Map.of(second, RecordsToDelete.beforeOffset(20))).all().get();
            consumer.assign(List.of(first, second));
            Checks.same(Map.of(first, 0L, second, 20L), consumer.beginningOffsets(List.of(first, second)));
            Checks.same(Map.of(first, 50L, second, 50L), consumer.endOffsets(List.of(first, second)));
            consumer.seek(first, 45);
            consumer.seekToEnd(List.of(second));
            List<ConsumerRecord<byte[], byte[]>> records = poll(consumer, 5);
            Checks.same(5, records.size());
            Checks.same(45L, records.get(0).offset());
            Checks.same(50L, consumer.position(second));
            consumer.seekToBeginning(List.of(second));
            Checks.same(20L, consumer.position(second));
            Checks.same(30, poll(consumer, 30).size());
            Checks.same(0L, consumer.currentLag(second).getAsLong());
        }
    }

    private static void offsetsForTimes() throws Exception {
        String topic = topic(1);
        write(topic, 1, 50, 10);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            long[][] questions = {{0, 0}, {TIMESTAMP, 0}, {TIMESTAMP + 1, 1}, {TIMESTAMP + 30_000, 30}, {TIMESTAMP + 49_000, 49}};
            for (long[] question : questions) {
                OffsetAndTimestamp answer = consumer.offsetsForTimes(Map.of(partition, question[0])).get(partition);
                Checks.same(question[1], answer.offset());
                Checks.same(TIMESTAMP + question[1] * 1000, answer.timestamp());
            }
            Checks.same(null, consumer.offsetsForTimes(Map.of(partition, TIMESTAMP + 49_001)).get(partition));
        }
    }

    private static void readCommitted() throws Exception {
        String topic = topic(1);
        write(topic, 1, 50, 10);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("isolation.level", "read_committed")) {
            consumer.assign(List.of(partition));
            Checks.same(50, poll(consumer, 50).size());
            Checks.same(Map.of(partition, 50L), consumer.endOffsets(List.of(partition)));
        }
    }

    private static void pauseAndResume() throws Exception {
        String topic = topic(2);
        write(topic, 2, 50, 10);
        TopicPartition first = new TopicPartition(topic, 0);
        TopicPartition second = new TopicPartition(topic, 1);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("max.poll.records", "10")) {
            consumer.assign(List.of(first, second));
            consumer.pause(List.of(first));
            List<ConsumerRecord<byte[], byte[]>> records = poll(consumer, 50);
            Checks.holds(records.stream().allMatch(record -> record.partition() == 1), "read of a paused partition");
            consumer.resume(List.of(first));
            records = poll(consumer, 50);
            Checks.holds(records.stream().allMatch(record -> record.partition() == 0), "read twice");
            Checks.same(0L, records.get(0).offset());
        }
    }

    /** Records larger than every limit of the fetch still come, one at a time. */
    private static void smallFetches() throws Exception {
        String topic = topic(2);
        write(topic, 2, 20, 3000);
        try (KafkaConsumer<byte[], byte[]> consumer =
                consumer("fetch.max.bytes", "500", "max.partition.fetch.bytes", "300")) {
            consumer.assign(partitions(topic, 2));
            Checks.same(40, poll(consumer, 40).size());
        }
    }

    /** The fetch session of the client: partitions come and go while it reads. */
    private static void manyPartitions() throws Exception {
        String topic = topic(60);
        write(topic, 60, 20, 10);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("max.poll.records", "100")) {
            consumer.assign(partitions(topic, 60));
            Checks.same(1200, poll(consumer, 1200).size());
            consumer.assign(partitions(topic, 10));
            consumer.seekToBeginning(partitions(topic, 10));
            Checks.same(200, poll(consumer, 200).size());
            write(topic, 60, 1, 10);
            Checks.same(10, poll(consumer, 10).size());
            consumer.assign(partitions(topic, 60));
            consumer.seekToBeginning(partitions(topic, 60));
            Checks.same(1260, poll(consumer, 1260).size());
        }
    }

    private static void outOfRange() throws Exception {
        String topic = topic(1);
        write(topic, 1, 5, 10);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("auto.offset.reset", "none")) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 1000);
            OffsetOutOfRangeException error =
                    Checks.raises(OffsetOutOfRangeException.class, () -> poll(consumer, 1));
            Checks.same(Map.of(partition, 1000L), error.offsetOutOfRangePartitions());
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("auto.offset.reset", "earliest")) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 1000);
            Checks.same(0L, poll(consumer, 5).get(0).offset());
        }
    }

    private static void noOffset() throws Exception {
        String topic = topic(1);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("auto.offset.reset", "none", "group.id", fresh())) {
            consumer.assign(partitions(topic, 1));
            Checks.raises(NoOffsetForPartitionException.class, () -> poll(consumer, 1));
        }
    }

    private static void commitAndCommitted() throws Exception {
        String topic = topic(3);
        write(topic, 3, 10, 10);
        String group = fresh();
        TopicPartition first = new TopicPartition(topic, 0);
        TopicPartition second = new TopicPartition(topic, 1);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("group.id", group)) {
            consumer.assign(partitions(topic, 3));
            Map<TopicPartition, OffsetAndMetadata> none = new HashMap<>();
            partitions(topic, 3).forEach(partition -> none.put(partition, null));
            Checks.same(none, consumer.committed(partitions(topic, 3)));
            consumer.commitSync(Map.of(first, new OffsetAndMetadata(4, "why ü")));
            CompletableFuture<Exception> done = new CompletableFuture<>();
            consumer.commitAsync(Map.of(second, new OffsetAndMetadata(6)), (offsets, error) -> done.complete(error));
            Checks.await("commitAsync", () -> {
                consumer.poll(POLL);
                return done.isDone();
            });
            Checks.same(null, done.get());
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("group.id", group)) {
            consumer.assign(partitions(topic, 3));
            Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(partitions(topic, 3));
            Checks.same("why ü", committed.get(first).metadata());
            Checks.same(4L, committed.get(first).offset());
            Checks.same(6L, committed.get(second).offset());
            Checks.same(null, committed.get(new TopicPartition(topic, 2)));
            Checks.same(6 + 4 + 10, poll(consumer, 20).size());
        }
    }

    private static void autoCommit() throws Exception {
        String topic = topic(1);
        write(topic, 1, 10, 10);
        String group = fresh();
        Object[] more = {"group.id", group, "enable.auto.commit", "true", "auto.commit.interval.ms", "100"};
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(more)) {
            consumer.subscribe(List.of(topic));
            poll(consumer, 10);
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(more)) {
            Checks.same(10L, consumer.committed(partitions(topic, 1)).get(new TopicPartition(topic, 0)).offset());
        }
    }

    private static void wakeup() throws Exception {
        String topic = topic(1);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.assign(partitions(topic, 1));
            consumer.poll(POLL);
            CompletableFuture<Void> other = CompletableFuture.runAsync(
                    consumer::wakeup, CompletableFuture.delayedExecutor(200, TimeUnit.MILLISECONDS));
            Checks.raises(WakeupException.class, () -> consumer.poll(Duration.ofSeconds(20)));
            other.get();
            write(topic, 1, 1, 10);
            Checks.same(1, poll(consumer, 1).size());
        }
    }

    private static void longPollWakes() throws Exception {
        String topic = topic(1);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("fetch.max.wait.ms", "3000")) {
            consumer.assign(partitions(topic, 1));
            consumer.poll(POLL);
            CompletableFuture<Void> other = CompletableFuture.runAsync(
                    () -> write(topic, 1, 1, 10), CompletableFuture.delayedExecutor(200, TimeUnit.MILLISECONDS));
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofSeconds(30));
            Checks.same(1, records.count());
            other.get();
        }
    }

    /** One member alone, then two, then the other alone; nobody holds what another holds. */
    private static void twoMembers(Class<?> assignor) throws Exception {
        String topic = topic(6);
        String group = fresh();
        Object[] more = {"group.id", group, "partition.assignment.strategy", assignor.getName(),
                "heartbeat.interval.ms", "100", "session.timeout.ms", "10000"};
        List<String> events = new ArrayList<>();
        KafkaConsumer<byte[], byte[]> first = consumer(more);
        KafkaConsumer<byte[], byte[]> second = consumer(more);
        first.subscribe(List.of(topic), listener("first", events));
        Checks.await("the first has all", () -> {
            first.poll(POLL);
            return first.assignment().size() == 6;
        });
        second.subscribe(List.of(topic), listener("second", events));
        Checks.await("both have three: " + events, () -> {
            first.poll(POLL);
            second.poll(POLL);
            return first.assignment().size() == 3 && second.assignment().size() == 3;
        });
        Set<TopicPartition> all = new HashSet<>(first.assignment());
        all.addAll(second.assignment());
        Checks.same(partitions(topic, 6), all);
        write(topic, 6, 10, 10);
        Checks.same(30, poll(first, 30).size());
        Checks.same(30, poll(second, 30).size());
        first.commitSync();
        second.commitSync();
        first.close();
        Checks.await("the second has all: " + events, () -> {
            second.poll(POLL);
            return second.assignment().size() == 6;
        });
        Checks.same(0, second.poll(POLL).count());
        second.close();
    }

    private static ConsumerRebalanceListener listener(String name, List<String> events) {
        return new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                events.add(name + " revoked " + partitions);
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                events.add(name + " assigned " + partitions);
            }

            @Override
            public void onPartitionsLost(Collection<TopicPartition> partitions) {
                events.add(name + " lost " + partitions);
            }
        };
    }

    private static void patternFindsNewTopics() throws Exception {
        String prefix = "pattern-" + System.nanoTime();
        topic(prefix + "-a", 2);
        topic("not-" + prefix, 2);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("group.id", fresh())) {
            consumer.subscribe(Pattern.compile(prefix + ".*"));
            Checks.await("the first topic", () -> {
                consumer.poll(POLL);
                return consumer.assignment().size() == 2;
            });
            topic(prefix + "-b", 3);
            Checks.await("the second topic", () -> {
                consumer.poll(POLL);
                return consumer.assignment().size() == 5;
            });
            try (Admin admin = admin()) {
                admin.deleteTopics(List.of(prefix + "-a")).all().get();
            }
            Checks.await("the first topic gone", () -> {
                consumer.poll(POLL);
                return consumer.assignment().equals(partitions(prefix + "-b", 3));
            });
        }
    }

    private static void morePartitionsAreFound() throws Exception {
        String topic = topic(1);
        try (Admin admin = admin(); KafkaConsumer<byte[], byte[]> consumer = consumer("group.id", fresh())) {
            consumer.subscribe(List.of(topic));
            Checks.await("one partition", () -> {
                consumer.poll(POLL);
                return consumer.assignment().size() == 1;
            });
            admin.createPartitions(Map.of(topic, org.apache.kafka.clients.admin.NewPartitions.increaseTo(4))).all().get();
            Checks.await("four partitions", () -> {
                consumer.poll(POLL);
                return consumer.assignment().size() == 4;
            });
            write(topic, 4, 1, 10);
            Checks.same(4, poll(consumer, 4).size());
        }
    }

    /** Longer between two polls than allowed: the member leaves, its commit fails, it joins again. */
    private static void expelledWhenSlow() throws Exception {
        String topic = topic(1);
        write(topic, 1, 1, 10);
        List<String> events = new ArrayList<>();
        String group = fresh();
        try (Admin admin = admin();
                KafkaConsumer<byte[], byte[]> consumer = consumer("group.id", group,
                        "max.poll.interval.ms", "600", "session.timeout.ms", "6000", "heartbeat.interval.ms", "100")) {
            consumer.subscribe(List.of(topic), listener("it", events));
            poll(consumer, 1);
            Checks.await("the group empty", () -> admin.describeConsumerGroups(List.of(group))
                    .all().get().get(group).members().isEmpty());
            Checks.raises(CommitFailedException.class, consumer::commitSync);
            Checks.same(1, poll(consumer, 1).size());
            consumer.commitSync();
            Checks.holds(events.toString().contains("lost"), "never lost: " + events);
        }
    }

    private static void staticMembershipRefused() throws Exception {
        String topic = topic(1);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("group.id", fresh(), "group.instance.id", "one")) {
            consumer.subscribe(List.of(topic));
            UnsupportedVersionException error = Checks.raises(UnsupportedVersionException.class,
                    () -> Checks.await("never", () -> {
                        consumer.poll(POLL);
                        return false;
                    }));
            Checks.note("static-membership-refused", error.getMessage());
        }
    }

    private static void consumerProtocolRefused() throws Exception {
        String topic = topic(1);
        Properties properties = settings("group.id", fresh(), "group.protocol", "consumer");
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties)) {
            consumer.subscribe(List.of(topic));
            UnsupportedVersionException error = Checks.raises(UnsupportedVersionException.class,
                    () -> Checks.await("never", () -> {
                        consumer.poll(POLL);
                        return false;
                    }));
            Checks.note("consumer-protocol-refused", error.getMessage());
        }
    }

    private static void listTopics() throws Exception {
        String topic = topic(3);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            Checks.same(3, consumer.listTopics().get(topic).size());
            Checks.same(3, consumer.partitionsFor(topic).size());
            Checks.holds(consumer.listTopics().keySet().stream().noneMatch(String::isEmpty), "an empty name");
        }
    }
}
