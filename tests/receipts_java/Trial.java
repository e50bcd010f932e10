import java.io.BufferedReader;
import java.io.FileReader;
import java.io.InputStreamReader;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * An application: sends each line of its input, which is key, value and headers, tab between them, in base64; "-" is
 * null, "again" sends the same object once more. Its arguments: a file of properties, a topic, and in the place of
 * "plain": "commit" or "abort" for all of it in one transaction, "forever" for numbers without end in the place of the
 * input.
 */
public final class Trial {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (Reader file = new FileReader(arguments[0])) {
            properties.load(file);
        }
        String topic = arguments[1];
        String manner = arguments[2];
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            if (manner.equals("forever")) {
                for (long number = 0; ; number++) {
                    producer.send(new ProducerRecord<>(topic, 0, null, Long.toString(number).getBytes()));
                    if (number % 100 == 0) {
                        producer.flush();
                    }
                }
            }
            boolean transactional = !manner.equals("plain");
            if (transactional) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            send(producer, topic);
            producer.flush();
            if (transactional && manner.equals("commit")) {
                producer.commitTransaction();
            } else if (transactional) {
                producer.abortTransaction();
            }
        }
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, String topic) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        ProducerRecord<byte[], byte[]> record = null;
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            if (!line.equals("again")) {
                String[] fields = line.split("\t", -1);
                record = new ProducerRecord<>(topic, bytes(fields[0]), bytes(fields[1]));
                for (int i = 2; i < fields.length; i += 2) {
                    record.headers().add(fields[i], bytes(fields[i + 1]));
                }
            }
            producer.send(record);
        }
    }

    private static byte[] bytes(String text) {
        return text.equals("-") ? null : Base64.getDecoder().decode(text);
    }
}
