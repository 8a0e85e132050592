import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A stream of numbered records through whatever happens:
 * java Stream BOOTSTRAP TOPIC PARTITIONS [PAUSE_MS]. A record goes to each partition, then it pauses
 * (1 ms unless told).
 *
 * The producer is idempotent, as is the default, and sends until standard input is closed; a member
 * of a group reads meanwhile and goes on until it has all. Prints `at NUMBER` now and then as it
 * reads, and at the end `read NUMBER`; a record lost, doubled or out of order ends the program with
 * an exception.
 */
final class Stream {
    private static volatile boolean stopping;
    private static final AtomicLong acknowledged = new AtomicLong();
    private static volatile Exception failure;

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int partitions = Integer.parseInt(arguments[2]);
        long pauseMs = arguments.length > 3 ? Long.parseLong(arguments[3]) : 1;
        Thread watcher = new Thread(Stream::watchInput);
        watcher.setDaemon(true);
        watcher.start();
        Thread writer = new Thread(() -> write(arguments[0], topic, partitions, pauseMs));
        writer.start();

        long[] next = new long[partitions];
        long read = 0;
        Properties properties = Checks.properties(
                "bootstrap.servers", arguments[0],
                "group.id", "reader of " + topic,
                "auto.offset.reset", "earliest",
                "auto.commit.interval.ms", "200",
                "key.deserializer", ByteArrayDeserializer.class.getName(),
                "value.deserializer", ByteArrayDeserializer.class.getName());
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties)) {
            consumer.subscribe(List.of(topic));
            long told = 0;
            while (writer.isAlive() || read < acknowledged.get()) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    long number = ByteBuffer.wrap(record.value()).getLong();
                    Checks.same(next[record.partition()], number);
                    Checks.same(number, record.offset());
                    next[record.partition()]++;
                    read++;
                }
                Checks.holds(failure == null, String.valueOf(failure));
                if (read >= told + 1000) {
                    told = read;
                    System.out.println("at\t" + read);
                }
            }
        }
        System.out.println("read\t" + read);
    }

    private static void watchInput() {
        try {
            System.in.readAllBytes();
        } catch (java.io.IOException error) {
            failure = error;
        }
        stopping = true;
    }

    private static void write(String bootstrap, String topic, int partitions, long pauseMs) {
        Properties properties = Checks.properties(
                "bootstrap.servers", bootstrap,
                "linger.ms", "2",
                "key.serializer", ByteArraySerializer.class.getName(),
                "value.serializer", ByteArraySerializer.class.getName());
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            for (long number = 0; !stopping; number++) {
                for (int partition = 0; partition < partitions; partition++) {
                    byte[] value = ByteBuffer.allocate(Long.BYTES).putLong(number).array();
                    producer.send(new ProducerRecord<>(topic, partition, null, value), (metadata, error) -> {
                        if (error == null) {
                            acknowledged.incrementAndGet();
                        } else {
                            failure = error;
                        }
                    });
                }
                Thread.sleep(pauseMs);
            }
        } catch (InterruptedException error) {
            failure = error;
        }
    }
}
