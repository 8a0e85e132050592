import java.io.IOException;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.StringJoiner;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * One member of a group: java GroupMember ADDRESS GROUP TOPIC STRATEGY SESSION_MS.
 *
 * Tells what happens to it as group_member.py does. `at` is the system's monotonic clock, which
 * Python's `time.monotonic` reads as well. Ends gracefully when its standard input is closed.
 */
final class GroupMember {
    private static volatile boolean stopping;

    public static void main(String[] arguments) {
        Thread watcher = new Thread(GroupMember::watchInput);
        watcher.setDaemon(true);
        watcher.start();
        Properties properties = Checks.properties(
                "bootstrap.servers", arguments[0],
                "group.id", arguments[1],
                "auto.offset.reset", "earliest",
                "enable.auto.commit", "false",
                "session.timeout.ms", arguments[4],
                "heartbeat.interval.ms", "200",
                "partition.assignment.strategy", assignor(arguments[3]),
                "key.deserializer", ByteArrayDeserializer.class.getName(),
                "value.deserializer", ByteArrayDeserializer.class.getName());
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties)) {
            consumer.subscribe(List.of(arguments[2]), listener(consumer));
            while (!stopping) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                if (!records.isEmpty()) {
                    report("messages", "\"read\": " + read(records));
                    try {
                        consumer.commitSync();
                    } catch (KafkaException error) {
                        report("commit failed", "\"error\": \"" + error.getClass().getName() + "\"");
                    }
                }
            }
            report("leaving", null);
        }
    }

    private static void watchInput() {
        try {
            System.in.readAllBytes();
        } catch (IOException error) {
            System.err.println(error);
        }
        stopping = true;
    }

    private static String assignor(String strategy) {
        String name = switch (strategy) {
            case "range" -> "RangeAssignor";
            case "roundrobin" -> "RoundRobinAssignor";
            case "sticky" -> "StickyAssignor";
            case "cooperative-sticky" -> "CooperativeStickyAssignor";
            default -> throw new IllegalArgumentException(strategy);
        };
        return "org.apache.kafka.clients.consumer." + name;
    }

    private static ConsumerRebalanceListener listener(KafkaConsumer<byte[], byte[]> consumer) {
        return new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                report("revoked", partitions(partitions));
            }

            /** A cooperative member is told only what is new, so it says all that it holds. */
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                report("assigned", partitions(consumer.assignment()));
            }
        };
    }

    private static String partitions(Collection<TopicPartition> partitions) {
        StringJoiner numbers = new StringJoiner(", ", "\"partitions\": [", "]");
        partitions.stream().mapToInt(TopicPartition::partition).sorted()
                .forEach(number -> numbers.add(String.valueOf(number)));
        return numbers.toString();
    }

    private static String read(ConsumerRecords<byte[], byte[]> records) {
        StringJoiner entries = new StringJoiner(", ", "[", "]");
        for (ConsumerRecord<byte[], byte[]> record : records) {
            entries.add("[" + record.partition() + ", " + record.offset() + "]");
        }
        return entries.toString();
    }

    private static synchronized void report(String event, String what) {
        String more = what == null ? "" : ", " + what;
        System.out.printf(java.util.Locale.ROOT, "{\"at\": %.9f, \"event\": \"%s\"%s}%n",
                System.nanoTime() / 1e9, event, more);
        System.out.flush();
    }
}
