import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Writes and reads messages above its quota: java ThrottledClient BOOTSTRAP CLIENT TOPIC MESSAGES SIZE. */
final class ThrottledClient {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[2];
        int messages = Integer.parseInt(arguments[3]);
        int size = Integer.parseInt(arguments[4]);
        Properties common = new Properties();
        common.put("bootstrap.servers", arguments[0]);
        common.put("client.id", arguments[1]);
        Properties writing = new Properties();
        writing.putAll(common);
        writing.put("batch.size", "50000");
        ByteArraySerializer bytes = new ByteArraySerializer();
        long started = System.nanoTime();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(writing, bytes, bytes)) {
            for (int number = 0; number < messages; number++) {
                producer.send(new ProducerRecord<>(topic, new byte[size]));
            }
            producer.flush();
            report("produce", started, producer.metrics());
        }
        Properties reading = new Properties();
        reading.putAll(common);
        reading.put("max.partition.fetch.bytes", "100000");
        ByteArrayDeserializer read = new ByteArrayDeserializer();
        started = System.nanoTime();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(reading, read, read)) {
            List<TopicPartition> partitions = List.of(new TopicPartition(topic, 0));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            int count = 0;
            while (count < messages) {
                count += consumer.poll(Duration.ofSeconds(1)).count();
            }
            report("fetch", started, consumer.metrics());
        }
    }

    private static void report(
            String what, long started, Map<MetricName, ? extends Metric> metrics) {
        long millis = (System.nanoTime() - started) / 1_000_000;
        for (Map.Entry<MetricName, ? extends Metric> each : metrics.entrySet()) {
            if (each.getKey().name().equals(what + "-throttle-time-max")) {
                System.out.println(what + " " + millis + " " + each.getValue().metricValue());
            }
        }
    }
}
