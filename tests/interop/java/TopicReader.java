import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.StringJoiner;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads partition 0 of topics from the beginning to the end: java TopicReader BOOTSTRAP TOPIC...
 *
 * Prints `topic NAME`, then a line a record in the form of {@link SegmentReader}.
 */
final class TopicReader {
    public static void main(String[] arguments) {
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(Checks.properties(
                "bootstrap.servers", arguments[0],
                "fetch.max.wait.ms", "20",
                "enable.auto.commit", "false",
                "key.deserializer", ByteArrayDeserializer.class.getName(),
                "value.deserializer", ByteArrayDeserializer.class.getName()))) {
            for (String topic : List.of(arguments).subList(1, arguments.length)) {
                TopicPartition partition = new TopicPartition(topic, 0);
                System.out.println("topic\t" + topic);
                consumer.assign(List.of(partition));
                consumer.seekToBeginning(List.of(partition));
                long end = consumer.endOffsets(List.of(partition)).get(partition);
                while (consumer.position(partition) < end) {
                    consumer.poll(Duration.ofMillis(500)).forEach(TopicReader::print);
                }
            }
        }
    }

    private static void print(ConsumerRecord<byte[], byte[]> record) {
        StringJoiner headers = new StringJoiner(",");
        for (Header header : record.headers()) {
            headers.add(header.key() + "=" + hex(header.value()));
        }
        System.out.println(String.join("\t", "record", "" + record.offset(), "" + record.timestamp(),
                hex(record.key()), hex(record.value()), headers.toString()));
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? "null" : HexFormat.of().formatHex(bytes);
    }
}
