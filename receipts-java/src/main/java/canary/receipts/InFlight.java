package canary.receipts;

import java.lang.ref.Reference;
import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;

/**
 * The digests of the records that are under way, each found again by the identity of the record's headers: the client
 * (Kafka 4.1 and later) hands an acknowledgement the very object that the record was sent with.
 *
 * <p>Nothing else ties an acknowledgement to its record, so where the object is another one (an interceptor further on
 * has replaced the record) there is no digest, and never that of another record. The headers are held weakly: a record
 * that is never acknowledged leaves nothing behind.
 */
final class InFlight {
    private final ConcurrentHashMap<Identity, Sent> sent = new ConcurrentHashMap<>();
    private final ReferenceQueue<Headers> forgotten = new ReferenceQueue<>();

    /** Remembers a record by its headers. */
    void put(Headers headers, byte[] key, byte[] value) {
        for (Reference<?> gone = forgotten.poll(); gone != null; gone = forgotten.poll()) {
            sent.remove(gone);
        }
        sent.merge(new Identity(headers, forgotten), new Sent(key, value, headers.toArray().length), Sent::again);
    }

    /** Returns the digest of the acknowledged record with these headers, null if it is not known. */
    Long take(Headers headers, RecordMetadata metadata) {
        Sent[] found = new Sent[1];
        sent.computeIfPresent(new Identity(headers, null), (identity, one) -> {
            found[0] = one;
            return --one.times == 0 ? null : one;
        });
        Header[] now = headers.toArray();
        return found[0] == null || !found[0].became(metadata, now.length) ? null : Digest.ended(found[0].link, now);
    }

    /** A record that is under way, and how often: an application may send one object again. */
    private static final class Sent {
        final int keySize;
        final int valueSize;
        final int headers;
        final long link;
        boolean alike = true;
        int times = 1;

        Sent(byte[] key, byte[] value, int headers) {
            this.headers = headers;
            keySize = key == null ? -1 : key.length;
            valueSize = value == null ? -1 : value.length;
            link = Digest.begun(key, value, headers);
        }

        Sent again(Sent other) {
            other.times += times;
            other.alike &= alike && link == other.link;
            return other;
        }

        /** Whether this is what the client has sent, as far as it tells. */
        boolean became(RecordMetadata metadata, int headersNow) {
            return alike && headers == headersNow && keySize == metadata.serializedKeySize()
                    && valueSize == metadata.serializedValueSize();
        }
    }

    private static final class Identity extends WeakReference<Headers> {
        private final int hash;

        Identity(Headers headers, ReferenceQueue<Headers> queue) {
            super(headers, queue);
            hash = System.identityHashCode(headers);
        }

        @Override
        public int hashCode() {
            return hash;
        }

        @Override
        public boolean equals(Object other) {
            if (this == other) {
                return true;
            }
            Headers mine = get();
            return mine != null && other instanceof Identity && ((Identity) other).get() == mine;
        }
    }
}
