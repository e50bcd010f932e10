package canary.receipts;

import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;

/**
 * The digests of the records that are under way, each found again by the identity of the record's headers: the client
 * (Kafka 4.1 and later) hands an acknowledgement the very object that the record was sent with.
 *
 * <p>Nothing else ties an acknowledgement to its record, so where the object is another one (an interceptor further on
 * has replaced the record) there is no digest, and never that of another record.
 *
 * <p>Tables with open addressing and a lock each, which hold no objects of their own: a producer may have hundreds of
 * thousands of records under way, and a map with its entries costs several times as much then. A table that is full is
 * emptied: it holds records that will never be acknowledged, or more than the buffer of the client should.
 */
final class InFlight {
    private static final int TABLES = 16;
    private static final int SMALLEST = 16;
    private static final long UNKNOWN = -1;

    private final Table[] tables = new Table[TABLES];

    /** Holds so many records at most. */
    InFlight(long most) {
        for (int i = 0; i < TABLES; i++) {
            tables[i] = new Table(Math.max(SMALLEST, most / TABLES));
        }
    }

    /** Remembers a record, of which key and value may be null, by its headers. Returns how many others it forgot. */
    int put(Headers headers, byte[] key, byte[] value) {
        int number = headers.toArray().length;
        long link = Digest.begun(key, value, number);
        int hash = hash(headers);
        Table table = tables[hash >>> 28];
        synchronized (table) {
            return table.put(headers, hash, link, shape(key == null ? -1 : key.length, value == null ? -1 : value.length, number));
        }
    }

    boolean holds(Headers headers) {
        int hash = hash(headers);
        Table table = tables[hash >>> 28];
        synchronized (table) {
            return table.headers[table.find(headers, hash)] != null;
        }
    }

    /** Returns the digest of the acknowledged record with these headers, null if it is not known. */
    Long take(Headers headers, RecordMetadata metadata) {
        Header[] now = headers.toArray();
        long shape = shape(metadata.serializedKeySize(), metadata.serializedValueSize(), now.length);
        int hash = hash(headers);
        Table table = tables[hash >>> 28];
        long link;
        synchronized (table) {
            int at = table.find(headers, hash);
            if (table.headers[at] == null) {
                return null;
            }
            link = table.digests[2 * at];
            shape ^= table.digests[2 * at + 1];
            table.remove(at);
        }
        return shape == 0 ? Digest.ended(link, now) : null; // else this is not what was sent
    }

    private static int hash(Headers headers) {
        return System.identityHashCode(headers) * 0x9E3779B9;
    }

    /** Returns a number that differs where one of the three does. Sizes are those of the client: -1 for null. */
    private static long shape(int keySize, int valueSize, int headers) {
        return ((keySize + 1L) << 32 | valueSize + 1L) * 0x9E3779B97F4A7C15L + headers & Long.MAX_VALUE;
    }

    private static final class Table {
        private final long most;
        private Headers[] headers;
        private int[] hashes; // what is asked of an object is a miss of the cache
        private long[] digests; // link and shape of each, side by side
        private int count;

        Table(long most) {
            this.most = most;
            reset(SMALLEST);
        }

        /** An object that is under way twice stands here twice. With another content no acknowledgement is certain. */
        int put(Headers one, int hash, long link, long shape) {
            int forgotten = 0;
            if (count >= most) {
                forgotten = count;
                reset(SMALLEST);
            } else if (2 * (count + 1) > headers.length) {
                grow();
            }
            int at = hash & headers.length - 1;
            long known = shape;
            for (; headers[at] != null; at = next(at)) {
                if (headers[at] == one && (digests[2 * at] != link || digests[2 * at + 1] != shape)) {
                    digests[2 * at + 1] = UNKNOWN;
                    known = UNKNOWN;
                }
            }
            set(at, one, hash, link, known);
            return forgotten;
        }

        /** Returns where it is, else where it would be put. */
        int find(Headers one, int hash) {
            int at = hash & headers.length - 1;
            while (headers[at] != null && headers[at] != one) {
                at = next(at);
            }
            return at;
        }

        /** Closes the gap with those that were put further on because of it. */
        void remove(int gap) {
            int mask = headers.length - 1;
            for (int at = next(gap); headers[at] != null; at = next(at)) {
                int home = hashes[at] & mask;
                if ((at - home & mask) >= (at - gap & mask)) {
                    set(gap, headers[at], hashes[at], digests[2 * at], digests[2 * at + 1]);
                    gap = at;
                }
            }
            headers[gap] = null;
            count--;
            if (count == 0 && headers.length > 4096) {
                reset(SMALLEST);
            }
        }

        private void set(int at, Headers one, int hash, long link, long shape) {
            count += headers[at] == null ? 1 : 0;
            headers[at] = one;
            hashes[at] = hash;
            digests[2 * at] = link;
            digests[2 * at + 1] = shape;
        }

        private int next(int at) {
            return at + 1 & headers.length - 1;
        }

        private void reset(int size) {
            headers = new Headers[size];
            hashes = new int[size];
            digests = new long[2 * size];
            count = 0;
        }

        private void grow() {
            Headers[] all = headers;
            int[] theirs = hashes;
            long[] known = digests;
            reset(2 * all.length);
            for (int i = 0; i < all.length; i++) {
                if (all[i] != null) {
                    int at = theirs[i] & headers.length - 1;
                    while (headers[at] != null) {
                        at = next(at);
                    }
                    set(at, all[i], theirs[i], known[2 * i], known[2 * i + 1]);
                }
            }
        }
    }
}
