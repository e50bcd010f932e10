package canary.receipts;

import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.ClusterResource;
import org.apache.kafka.common.ClusterResourceListener;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.Serializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps a receipt for each record of a producer that a broker has acknowledged: topic, partition, offset, times, digest.
 *
 * <p>The producer names it in its properties, last of its interceptors, and a directory:
 *
 * <pre>
 * interceptor.classes=canary.receipts.ReceiptInterceptor
 * canary.receipts.directory=/var/lib/orders/receipts
 * </pre>
 *
 * <p>Records are not changed, and no value is kept. It never lets the producer wait, and what it cannot keep it counts.
 * What is written, and what it promises: docs/receipts.md.
 */
public final class ReceiptInterceptor<K, V> implements ProducerInterceptor<K, V>, ClusterResourceListener {
    private static final Logger LOG = LoggerFactory.getLogger(ReceiptInterceptor.class);

    /** A record takes so many bytes of the client's buffer, and most take more. */
    private static final long SMALL_RECORD = 64;

    private InFlight inFlight;
    private Gate gate;

    /** Records under way that are to have a receipt where others have none: mostly 0, and then nothing is looked for. */
    private final AtomicInteger chosen = new AtomicInteger();
    private Serializer<Object> keys;
    private Serializer<Object> values;
    private ReceiptLog log;

    @Override
    public void configure(Map<String, ?> configs) {
        Settings settings = new Settings(configs, System.getenv());
        if (settings.directory == null) {
            LOG.info("No receipts are written: canary.receipts.directory names no directory");
            return;
        }
        if (!acknowledgesWithHeaders()) {
            LOG.info("Receipts have no digests: only the client of Kafka 4.1 and later tells which record it acknowledges");
        } else {
            keys = KnownSerializers.like(configs, "key");
            values = KnownSerializers.like(configs, "value");
            if (keys == null || values == null) {
                LOG.info("Receipts have no digests: the bytes that {} and {} send are not known to an interceptor",
                        configs.get("key.serializer"), configs.get("value.serializer"));
            }
        }
        gate = new Gate(settings.perSecond);
        inFlight = new InFlight(settings.bufferMemory / SMALL_RECORD);
        log = new ReceiptLog(settings);
    }

    @Override
    public void onUpdate(ClusterResource cluster) {
        if (log != null) {
            log.cluster(cluster.clusterId());
        }
    }

    @Override
    public ProducerRecord<K, V> onSend(ProducerRecord<K, V> record) {
        if (log != null && isDigesting() && gate.opens()) {
            try {
                Headers headers = record.headers();
                byte[] key = keys.serialize(record.topic(), headers, record.key());
                byte[] value = values.serialize(record.topic(), headers, record.value());
                int forgotten = inFlight.put(headers, key, value);
                if (!gate.isOpenToAll()) {
                    chosen.addAndGet(1 - forgotten);
                    log.dropped(forgotten);
                }
            } catch (RuntimeException wrong) { // of the record; the producer will say the same to the application
                LOG.debug("A record gets no digest", wrong);
            }
        }
        return record;
    }

    /** Is called by clients before Kafka 4.1. */
    @Override
    public void onAcknowledgement(RecordMetadata metadata, Exception exception) {
        if (log != null && gate.opens()) {
            acknowledged(metadata, exception, null);
        }
    }

    /** Is called by clients since Kafka 4.1 in place of the other; the interface compiled against does not know it. */
    public void onAcknowledgement(RecordMetadata metadata, Exception exception, Headers headers) {
        if (log == null) {
            return;
        }
        if (isDigesting() ? gate.isOpenToAll() || isChosen(headers) : gate.opens()) {
            acknowledged(metadata, exception, metadata == null ? null : inFlight.take(headers, metadata));
        }
    }

    private boolean isChosen(Headers headers) {
        boolean found = chosen.get() > 0 && inFlight.holds(headers);
        if (found) {
            chosen.decrementAndGet();
        }
        return found;
    }

    private boolean isDigesting() {
        return keys != null && values != null;
    }

    @Override
    public void close() {
        if (log != null) {
            log.close();
        }
    }

    private void acknowledged(RecordMetadata metadata, Exception exception, Long digest) {
        if (exception != null || metadata == null) {
            log.failed();
        } else if (!metadata.hasOffset()) {
            log.withoutOffset();
        } else {
            Long timestamp = metadata.hasTimestamp() ? metadata.timestamp() : null;
            log.add(metadata.topic(), metadata.partition(), metadata.offset(), timestamp, digest);
        }
    }

    private static boolean acknowledgesWithHeaders() {
        try {
            ProducerInterceptor.class.getMethod(
                    "onAcknowledgement", RecordMetadata.class, Exception.class, Headers.class);
            return true;
        } catch (NoSuchMethodException older) {
            return false;
        }
    }
}
