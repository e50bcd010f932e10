package canary.receipts;

import java.util.Arrays;

/** Receipts in columns, in the order of their acknowledgement. Not safe for threads: one fills it, then one reads it. */
final class Rows {
    static final int CAPACITY = 1 << 15;

    String[] topic = new String[64];
    int[] partition = new int[64];
    long[] offset = new long[64];
    long[] timestamp = new long[64];
    boolean[] timestamped = new boolean[64];
    long[] ackedAt = new long[64];
    long[] digest = new long[64];
    boolean[] digested = new boolean[64];
    int count;

    /** When the last of these rows had been added, in microseconds since the epoch; later ones are in other Rows. */
    long until;

    /** Whether the producer has closed, and nothing follows. */
    boolean isLast;

    /** Adds a receipt: timestamp in ms, ackedAt in us, each since the epoch; timestamp and digest may be null. */
    void add(String inTopic, int inPartition, long atOffset, Long timestampMs, long ackedAtUs, Long itsDigest) {
        if (count == topic.length) {
            grow(2 * count);
        }
        topic[count] = inTopic;
        partition[count] = inPartition;
        offset[count] = atOffset;
        timestamped[count] = timestampMs != null;
        timestamp[count] = timestampMs == null ? 0 : timestampMs;
        ackedAt[count] = ackedAtUs;
        digested[count] = itsDigest != null;
        digest[count] = itsDigest == null ? 0 : itsDigest;
        count++;
    }

    boolean isFull() {
        return count == CAPACITY;
    }

    private void grow(int length) {
        topic = Arrays.copyOf(topic, length);
        partition = Arrays.copyOf(partition, length);
        offset = Arrays.copyOf(offset, length);
        timestamp = Arrays.copyOf(timestamp, length);
        timestamped = Arrays.copyOf(timestamped, length);
        ackedAt = Arrays.copyOf(ackedAt, length);
        digest = Arrays.copyOf(digest, length);
        digested = Arrays.copyOf(digested, length);
    }
}
