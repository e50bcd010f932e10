package canary.receipts;

import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.Deflater;
import java.util.zip.GZIPOutputStream;

/**
 * A Parquet file of receipts: the columns of docs/receipts.md, a row group for each {@link Rows}, a page for each
 * column.
 *
 * <p>Written out here, because the library for it brings Hadoop along, which no application should get with an
 * interceptor. Encodings: dictionaries for what repeats, PLAIN for numbers, gzip where it saves something. Source:
 * github.com/apache/parquet-format.
 */
final class ParquetFile implements Closeable {
    private static final byte[] MAGIC = "PAR1".getBytes(StandardCharsets.US_ASCII);
    private static final int BOOLEAN = 0;
    private static final int INT32 = 1;
    private static final int INT64 = 2;
    private static final int BYTE_ARRAY = 6;
    private static final int PLAIN = 0;
    private static final int RLE = 3;
    private static final int RLE_DICTIONARY = 8;
    private static final int UNCOMPRESSED = 0;
    private static final int GZIP = 2;
    private static final int DATA_PAGE = 0;
    private static final int DICTIONARY_PAGE = 2;
    private static final int NO_CONVERSION = -1;
    private static final int UTF8 = 0;
    private static final int TIMESTAMP_MILLIS = 9;
    private static final int TIMESTAMP_MICROS = 10;

    private final FileChannel channel;
    private final boolean transactional;
    private final List<Group> groups = new ArrayList<>();
    private long rows;
    private long position;

    /** Creates the file. Each of its receipts is transactional, and then in doubt, or none is. */
    ParquetFile(Path path, boolean transactional) throws IOException {
        this.transactional = transactional;
        channel = FileChannel.open(path, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
        write(MAGIC);
    }

    /** Returns how many rows were given to the file, those included whose writing failed. */
    long rows() {
        return rows;
    }

    /** Writes a row group. */
    void append(Rows some) throws IOException {
        int count = some.count;
        rows += count;
        String[] outcome = new String[count];
        Arrays.fill(outcome, transactional ? "in-doubt" : "promised");
        Group group = new Group(count);
        group.add(dictionary("topic", some.topic, count));
        ByteBuffer partitions = buffer(4 * count);
        for (int i = 0; i < count; i++) {
            partitions.putInt(some.partition[i]);
        }
        group.add(page("partition", INT32, GZIP, count, partitions.array()));
        group.add(page("offset", INT64, GZIP, count, longs(some.offset, null, count)));
        group.add(page("timestamp", INT64, GZIP, count, longs(some.timestamp, some.timestamped, count)));
        group.add(page("acked_at", INT64, GZIP, count, longs(some.ackedAt, null, count)));
        group.add(page("digest", INT64, UNCOMPRESSED, count, longs(some.digest, some.digested, count)));
        byte[] bits = new byte[(count + 7) / 8];
        Arrays.fill(bits, (byte) (transactional ? 0xFF : 0));
        group.add(page("transactional", BOOLEAN, GZIP, count, bits));
        group.add(dictionary("outcome", outcome, count));
        groups.add(group);
    }

    /** Writes the footer with one entry of metadata, and sees the file safe on the disk. */
    void finish(String key, String value, String createdBy) throws IOException {
        Thrift footer = new Thrift().element().i32(1, 1).structs(2, 9);
        footer.element().string(4, "receipts").i32(5, 8).end();
        schema(footer, "topic", BYTE_ARRAY, false, UTF8);
        schema(footer, "partition", INT32, false, NO_CONVERSION);
        schema(footer, "offset", INT64, false, NO_CONVERSION);
        schema(footer, "timestamp", INT64, true, TIMESTAMP_MILLIS);
        schema(footer, "acked_at", INT64, false, TIMESTAMP_MICROS);
        schema(footer, "digest", INT64, true, NO_CONVERSION);
        schema(footer, "transactional", BOOLEAN, false, NO_CONVERSION);
        schema(footer, "outcome", BYTE_ARRAY, false, UTF8);
        footer.i64(3, rows).structs(4, groups.size());
        for (Group group : groups) {
            group.describe(footer);
        }
        footer.structs(5, 1).element().string(1, key).string(2, value).end();
        byte[] bytes = footer.string(6, createdBy).end().toBytes();
        write(bytes);
        write(buffer(4).putInt(bytes.length).array());
        write(MAGIC);
        channel.force(true);
    }

    @Override
    public void close() throws IOException {
        channel.close();
    }

    private static void schema(Thrift footer, String name, int type, boolean nullable, int converted) {
        footer.element().i32(1, type).i32(3, nullable ? 1 : 0).string(4, name);
        if (converted != NO_CONVERSION) {
            footer.i32(6, converted);
        }
        footer.end();
    }

    /** Writes a column of strings that repeat: each of them once, then runs of their numbers. */
    private Column dictionary(String name, String[] values, int count) throws IOException {
        Map<String, Integer> numbers = new LinkedHashMap<>();
        int[] chosen = new int[count];
        for (int i = 0; i < count; i++) {
            Integer number = numbers.get(values[i]);
            if (number == null) {
                number = numbers.size();
                numbers.put(values[i], number);
            }
            chosen[i] = number;
        }
        ByteArrayOutputStream words = new ByteArrayOutputStream();
        for (String word : numbers.keySet()) {
            byte[] bytes = word.getBytes(StandardCharsets.UTF_8);
            words.write(buffer(4).putInt(bytes.length).array());
            words.write(bytes);
        }
        Column column = new Column(name, BYTE_ARRAY, GZIP, RLE_DICTIONARY);
        column.dictionaryAt = position;
        write(column, DICTIONARY_PAGE, words.toByteArray(), 7, numbers.size(), PLAIN);
        ByteArrayOutputStream data = new ByteArrayOutputStream();
        int width = Math.max(1, 32 - Integer.numberOfLeadingZeros(numbers.size() - 1));
        data.write(width);
        runs(data, chosen, count, (width + 7) / 8);
        column.dataAt = position;
        write(column, DATA_PAGE, data.toByteArray(), 5, count, RLE_DICTIONARY);
        return column;
    }

    private Column page(String name, int type, int codec, int count, byte[] data) throws IOException {
        Column column = new Column(name, type, codec, PLAIN);
        column.dataAt = position;
        write(column, DATA_PAGE, data, 5, count, PLAIN);
        return column;
    }

    /** Writes a page: its header, whose field of this number describes its values, then its compressed data. */
    private void write(Column column, int kind, byte[] data, int field, int count, int encoding) throws IOException {
        byte[] packed = column.codec == GZIP ? gzip(data) : data;
        Thrift header = new Thrift().element().i32(1, kind).i32(2, data.length).i32(3, packed.length);
        header.struct(field).i32(1, count).i32(2, encoding);
        if (kind == DATA_PAGE) {
            header.i32(3, RLE).i32(4, RLE);
        }
        byte[] head = header.end().end().toBytes();
        write(head);
        write(packed);
        column.size += head.length + data.length;
        column.packed += head.length + packed.length;
    }

    private void write(byte[] bytes) throws IOException {
        for (ByteBuffer rest = ByteBuffer.wrap(bytes); rest.hasRemaining(); ) {
            position += channel.write(rest);
        }
    }

    /** Returns numbers as PLAIN has them; if some may be missing, after the runs that say which are present. */
    private static byte[] longs(long[] values, boolean[] present, int count) {
        if (present == null) {
            ByteBuffer all = buffer(8 * count);
            for (int i = 0; i < count; i++) {
                all.putLong(values[i]);
            }
            return all.array();
        }
        int[] levels = new int[count];
        int some = 0;
        for (int i = 0; i < count; i++) {
            levels[i] = present[i] ? 1 : 0;
            some += levels[i];
        }
        ByteArrayOutputStream encoded = new ByteArrayOutputStream();
        runs(encoded, levels, count, 1);
        ByteBuffer all = buffer(4 + encoded.size() + 8 * some);
        all.putInt(encoded.size()).put(encoded.toByteArray());
        for (int i = 0; i < count; i++) {
            if (present[i]) {
                all.putLong(values[i]);
            }
        }
        return all.array();
    }

    /** Writes numbers as runs of equal ones: the length, doubled, and the number in so many bytes. */
    private static void runs(ByteArrayOutputStream to, int[] numbers, int count, int width) {
        for (int from = 0, end; from < count; from = end) {
            for (end = from + 1; end < count && numbers[end] == numbers[from]; ) {
                end++;
            }
            Thrift.varint(to, (long) (end - from) << 1);
            for (int shift = 0; shift < 8 * width; shift += 8) {
                to.write(numbers[from] >>> shift);
            }
        }
    }

    private static byte[] gzip(byte[] data) throws IOException {
        ByteArrayOutputStream packed = new ByteArrayOutputStream(data.length / 4 + 64);
        try (Fast stream = new Fast(packed)) {
            stream.write(data);
        }
        return packed.toByteArray();
    }

    private static ByteBuffer buffer(int size) {
        return ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN);
    }

    private static final class Fast extends GZIPOutputStream {
        Fast(ByteArrayOutputStream to) throws IOException {
            super(to, 4096);
            def.setLevel(Deflater.BEST_SPEED);
        }
    }

    private static final class Group {
        private final int count;
        private final List<Column> columns = new ArrayList<>();

        Group(int count) {
            this.count = count;
        }

        void add(Column column) {
            columns.add(column);
        }

        void describe(Thrift footer) {
            long size = 0;
            footer.element().structs(1, columns.size());
            for (Column column : columns) {
                column.describe(footer, count);
                size += column.size;
            }
            footer.i64(2, size).i64(3, count).end();
        }
    }

    private static final class Column {
        final String name;
        final int type;
        final int codec;
        final int encoding;
        long dictionaryAt = -1;
        long dataAt;
        long size;
        long packed;

        Column(String name, int type, int codec, int encoding) {
            this.name = name;
            this.type = type;
            this.codec = codec;
            this.encoding = encoding;
        }

        void describe(Thrift footer, int count) {
            footer.element().i64(2, dictionaryAt < 0 ? dataAt : dictionaryAt).struct(3);
            footer.i32(1, type).i32s(2, PLAIN, RLE, encoding).strings(3, name).i32(4, codec);
            footer.i64(5, count).i64(6, size).i64(7, packed).i64(9, dataAt);
            if (dictionaryAt >= 0) {
                footer.i64(11, dictionaryAt);
            }
            footer.end().end();
        }
    }
}
