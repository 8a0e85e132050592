import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Copies a topic in transactions until it is killed: java TransactionalCopier BOOTSTRAP NAME SOURCE
 * TARGET PARTITIONS TIMEOUT_MS; or prints what is committed: java TransactionalCopier BOOTSTRAP read
 * TOPIC PARTITIONS.
 *
 * NAME is the transactional id and the group. Any error ends it; whoever runs it starts another one.
 */
final class TransactionalCopier {
    private static final int BATCH = 10;

    public static void main(String[] arguments) {
        if (arguments[1].equals("read")) {
            read(arguments[0], arguments[2], Integer.parseInt(arguments[3]));
            return;
        }
        String name = arguments[1];
        List<TopicPartition> source = partitions(arguments[2], Integer.parseInt(arguments[4]));
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(Checks.properties(
                        "bootstrap.servers", arguments[0],
                        "transactional.id", name,
                        "transaction.timeout.ms", arguments[5],
                        "max.block.ms", "60000",
                        "key.serializer", ByteArraySerializer.class.getName(),
                        "value.serializer", ByteArraySerializer.class.getName()));
                KafkaConsumer<byte[], byte[]> consumer = consumer(arguments[0], name)) {
            producer.initTransactions();
            consumer.assign(source);
            Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(new HashSet<>(source));
            for (TopicPartition each : source) {
                OffsetAndMetadata offset = committed.get(each);
                consumer.seek(each, offset == null ? 0 : offset.offset());
            }
            while (true) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> done = new HashMap<>();
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    producer.send(new ProducerRecord<>(arguments[3], record.partition(), null, record.value()));
                }
                for (TopicPartition each : records.partitions()) {
                    done.put(each, new OffsetAndMetadata(consumer.position(each)));
                }
                producer.sendOffsetsToTransaction(done, new ConsumerGroupMetadata(name));
                producer.commitTransaction();
            }
        }
    }

    private static void read(String bootstrap, String topic, int count) {
        List<TopicPartition> partitions = partitions(topic, count);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap, "none")) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            Set<TopicPartition> open = new HashSet<>(partitions);
            while (!open.isEmpty()) {
                consumer.poll(Duration.ofMillis(200))
                        .forEach(record -> System.out.println(new String(record.value())));
                open.removeIf(each -> consumer.position(each) >= ends.get(each));
            }
        }
    }

    private static List<TopicPartition> partitions(String topic, int count) {
        List<TopicPartition> found = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            found.add(new TopicPartition(topic, number));
        }
        return found;
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String bootstrap, String group) {
        return new KafkaConsumer<>(Checks.properties(
                "bootstrap.servers", bootstrap,
                "group.id", group,
                "isolation.level", "read_committed",
                "enable.auto.commit", "false",
                "auto.offset.reset", "earliest",
                "max.poll.records", "" + BATCH,
                "key.deserializer", ByteArrayDeserializer.class.getName(),
                "value.deserializer", ByteArrayDeserializer.class.getName()));
    }
}
