package canary.receipts;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;

/**
 * Writes structures in Thrift's compact protocol, in which Parquet's headers and footer are written. Source:
 * github.com/apache/thrift, doc/specs/thrift-compact-protocol.md.
 */
final class Thrift {
    private static final int I32 = 5;
    private static final int I64 = 6;
    private static final int BINARY = 8;
    private static final int LIST = 9;
    private static final int STRUCT = 12;

    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    private final ArrayDeque<Integer> outer = new ArrayDeque<>();
    private int last;

    Thrift i32(int field, int value) {
        header(field, I32);
        return zigzag(value);
    }

    Thrift i64(int field, long value) {
        header(field, I64);
        return zigzag(value);
    }

    Thrift string(int field, String value) {
        header(field, BINARY);
        return text(value);
    }

    /** Begins a structure in a field; end() ends it. */
    Thrift struct(int field) {
        header(field, STRUCT);
        return element();
    }

    /** Begins a structure that is an element of a list, or the outermost one; end() ends it. */
    Thrift element() {
        outer.push(last);
        last = 0;
        return this;
    }

    Thrift end() {
        bytes.write(0);
        last = outer.pop();
        return this;
    }

    Thrift structs(int field, int size) {
        return list(field, size, STRUCT);
    }

    Thrift i32s(int field, int... values) {
        list(field, values.length, I32);
        for (int value : values) {
            zigzag(value);
        }
        return this;
    }

    Thrift strings(int field, String... values) {
        list(field, values.length, BINARY);
        for (String value : values) {
            text(value);
        }
        return this;
    }

    byte[] toBytes() {
        return bytes.toByteArray();
    }

    /** Writes an unsigned number of variable length (ULEB128), least significant seven bits first. */
    static void varint(ByteArrayOutputStream to, long value) {
        for (; (value & ~0x7FL) != 0; value >>>= 7) {
            to.write((int) (value & 0x7F | 0x80));
        }
        to.write((int) value);
    }

    private Thrift list(int field, int size, int type) {
        header(field, LIST);
        if (size < 15) {
            bytes.write(size << 4 | type);
        } else {
            bytes.write(0xF0 | type);
            varint(bytes, size);
        }
        return this;
    }

    /** Fields ascend, by less than 16 each, so that the short form of a header always does. */
    private void header(int field, int type) {
        bytes.write(field - last << 4 | type);
        last = field;
    }

    private Thrift zigzag(long value) {
        varint(bytes, value << 1 ^ value >> 63);
        return this;
    }

    private Thrift text(String value) {
        byte[] encoded = value.getBytes(StandardCharsets.UTF_8);
        varint(bytes, encoded.length);
        bytes.write(encoded, 0, encoded.length);
        return this;
    }
}
