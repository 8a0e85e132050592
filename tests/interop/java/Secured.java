import java.io.FileReader;
import java.io.Reader;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Writes values and reads them back as a property file says: java Secured BOOTSTRAP FILE TOPIC
 * VALUE... Prints each value that it read on a line.
 */
final class Secured {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (Reader file = new FileReader(arguments[1])) {
            properties.load(file);
        }
        String text = "org.apache.kafka.common.serialization.String";
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("key.serializer", text + "Serializer");
        properties.put("value.serializer", text + "Serializer");
        properties.put("key.deserializer", text + "Deserializer");
        properties.put("value.deserializer", text + "Deserializer");
        String topic = arguments[2];
        List<String> values = List.of(arguments).subList(3, arguments.length);
        try (AdminClient admin = AdminClient.create(properties)) {
            admin.describeCluster().nodes().get();
        }
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            for (String value : values) {
                producer.send(new ProducerRecord<>(topic, value)).get();
            }
        }
        properties.put("group.id", topic + "-group");
        properties.put("auto.offset.reset", "earliest");
        long until = System.nanoTime() + Duration.ofSeconds(40).toNanos();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties)) {
            consumer.subscribe(List.of(topic));
            int found = 0;
            while (found < values.size() && System.nanoTime() < until) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    System.out.println(record.value());
                    found++;
                }
            }
        }
    }
}
