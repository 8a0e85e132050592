import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** One record there and back: java SecuredRoundTrip TOPIC GROUP VALUE < client.properties. */
final class SecuredRoundTrip {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[0];
        String value = arguments[2];
        Properties settings = new Properties();
        settings.load(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        settings.put("max.block.ms", "30000");
        settings.put("group.id", arguments[1]);
        settings.put("auto.offset.reset", "earliest");
        StringSerializer in = new StringSerializer();
        StringDeserializer out = new StringDeserializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, in, in)) {
            producer.send(new ProducerRecord<>(topic, value)).get();
        } catch (ExecutionException error) {
            System.out.println("error\t" + error.getCause());
            return;
        }
        long until = System.currentTimeMillis() + 30_000;
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, out, out)) {
            consumer.subscribe(List.of(topic));
            while (System.currentTimeMillis() < until) {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(200))) {
                    System.out.println("read\t" + each.value());
                    if (each.value().equals(value)) {
                        return;
                    }
                }
            }
        }
    }
}
