package canary.receipts;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.header.Header;

/**
 * The digest of a record, as canary/facts/digests.py defines it: chained XXH64 over the record's shape, key, value and
 * headers. Headers come last and may still grow after the value is known, so the chain is made in two steps; their
 * number is hashed first, and has to be known in the first.
 *
 * <p>XXH64 is written out here because the jar brings no dependency along; lz4-java, which has it, is one that
 * applications exclude. Source: github.com/Cyan4973/xxHash, doc/xxhash_spec.md.
 */
final class Digest {
    private static final long SEED = 42;
    private static final long P1 = 0x9E3779B185EBCA87L;
    private static final long P2 = 0xC2B2AE3D27D4EB4FL;
    private static final long P3 = 0x165667B19E3779F9L;
    private static final long P4 = 0x85EBCA77C2B2AE63L;
    private static final long P5 = 0x27D4EB2F165667C5L;

    private Digest() {}

    /** Returns the chain up to the value; key and value may be null. */
    static long begun(byte[] key, byte[] value, int headers) {
        long link = xxh64(number((key == null ? 1 : 0) + (value == null ? 2 : 0) + 4 * headers), SEED);
        link = key == null ? link : xxh64(key, link);
        return value == null ? link : xxh64(value, link);
    }

    /** Returns the digest of a record whose chain up to the value is known. */
    static long ended(long link, Header[] headers) {
        for (Header header : headers) {
            byte[] value = header.value();
            link = xxh64(header.key().getBytes(StandardCharsets.UTF_8), xxh64(number(value == null ? 1 : 0), link));
            link = value == null ? link : xxh64(value, link);
        }
        return link;
    }

    private static byte[] number(int number) {
        return ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putInt(number).array();
    }

    private static long xxh64(byte[] bytes, long seed) {
        ByteBuffer data = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        int at = 0;
        int end = bytes.length;
        long hash = seed + P5;
        if (end >= 32) {
            long a = seed + P1 + P2;
            long b = seed + P2;
            long c = seed;
            long d = seed - P1;
            for (; at <= end - 32; at += 32) {
                a = round(a, data.getLong(at));
                b = round(b, data.getLong(at + 8));
                c = round(c, data.getLong(at + 16));
                d = round(d, data.getLong(at + 24));
            }
            hash = Long.rotateLeft(a, 1) + Long.rotateLeft(b, 7) + Long.rotateLeft(c, 12) + Long.rotateLeft(d, 18);
            hash = merged(merged(merged(merged(hash, a), b), c), d);
        }
        hash += end;
        for (; at <= end - 8; at += 8) {
            hash = Long.rotateLeft(hash ^ round(0, data.getLong(at)), 27) * P1 + P4;
        }
        if (at <= end - 4) {
            hash = Long.rotateLeft(hash ^ (data.getInt(at) & 0xFFFFFFFFL) * P1, 23) * P2 + P3;
            at += 4;
        }
        for (; at < end; at++) {
            hash = Long.rotateLeft(hash ^ (bytes[at] & 0xFFL) * P5, 11) * P1;
        }
        hash = (hash ^ hash >>> 33) * P2;
        hash = (hash ^ hash >>> 29) * P3;
        return hash ^ hash >>> 32;
    }

    private static long round(long lane, long word) {
        return Long.rotateLeft(lane + word * P2, 31) * P1;
    }

    private static long merged(long hash, long lane) {
        return (hash ^ round(0, lane)) * P1 + P4;
    }
}
