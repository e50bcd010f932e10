package canary.receipts;

import java.io.ByteArrayOutputStream;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Range;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.common.config.ConfigException;

/**
 * What the producer's properties, or else the environment, say about receipts: canary.receipts.every_s, or
 * CANARY_RECEIPTS_EVERY_S. A bad value fails the construction of the producer, before anything is sent.
 */
final class Settings {
    private static final String PREFIX = "canary.receipts.";
    private static final ConfigDef DEFINITION = new ConfigDef()
            .define(PREFIX + "directory", Type.STRING, "", Importance.HIGH, "Where files go; empty: no receipts")
            .define(PREFIX + "name", Type.STRING, "", Importance.MEDIUM, "Name of the producer; empty: client.id")
            .define(PREFIX + "per_second", Type.INT, null, limit(), Importance.LOW, "The most receipts a second")
            .define(PREFIX + "every_s", Type.DOUBLE, 60.0, Range.between(0.1, 86_400), Importance.LOW, "A file's age")
            .define(PREFIX + "rows", Type.INT, 1_000_000, Range.atLeast(1), Importance.LOW, "A file's receipts");

    /** Words for each record, in the environment that Python applications read, too. */
    private static final List<String> EACH = Arrays.asList("all", "none", "");

    /** Null: no receipts are written. */
    final Path directory;

    final String name;
    final Integer perSecond;
    final long everyNs;
    final int rows;
    final boolean transactional;
    final long bufferMemory;
    final String host;

    Settings(Map<String, ?> configs, Map<String, String> environment) {
        for (String key : configs.keySet()) {
            if (key.startsWith(PREFIX) && !DEFINITION.names().contains(key)) {
                throw new ConfigException(key + " is unknown; there are " + new TreeSet<>(DEFINITION.names()));
            }
        }
        Map<String, Object> given = new HashMap<>();
        for (String key : DEFINITION.names()) {
            Object value = configs.get(key);
            value = value == null ? environment.get(key.replace('.', '_').toUpperCase(Locale.ROOT)) : value;
            boolean unlimited = key.equals(PREFIX + "per_second") && value != null && EACH.contains(value.toString());
            if (value != null && !unlimited) {
                given.put(key, value);
            }
        }
        Map<String, Object> parsed = DEFINITION.parse(given);
        String place = (String) parsed.get(PREFIX + "directory");
        if (place.contains("://")) { // Java would make folders of these names where the application runs
            throw new ConfigException(PREFIX + "directory is " + place + ": a directory is needed, URLs are not known");
        }
        directory = place.isEmpty() ? null : Paths.get(place);
        host = hostName();
        name = name((String) parsed.get(PREFIX + "name"), configs.get("client.id"), host);
        perSecond = (Integer) parsed.get(PREFIX + "per_second");
        everyNs = (long) ((Double) parsed.get(PREFIX + "every_s") * 1e9);
        rows = (Integer) parsed.get(PREFIX + "rows");
        Object memory = configs.get("buffer.memory");
        bufferMemory = memory == null ? 32 << 20 : Long.parseLong(memory.toString());
        transactional = configs.get("transactional.id") != null;
    }

    /** Returns the name as a part of a file's name: without a separator, or "--"; nothing that hides the file. */
    String filePart() {
        ByteArrayOutputStream safe = new ByteArrayOutputStream();
        int before = 0;
        for (byte one : name.getBytes(StandardCharsets.UTF_8)) {
            boolean plain = one >= 'a' && one <= 'z' || one >= 'A' && one <= 'Z' || one >= '0' && one <= '9'
                    || one == '-' && before != '-'
                    || (one == '.' || one == '_') && safe.size() > 0;
            byte[] written = plain ? new byte[] {one} : String.format("%%%02X", one).getBytes(StandardCharsets.UTF_8);
            safe.write(written, 0, written.length);
            before = plain ? one : 0;
        }
        return new String(safe.toByteArray(), StandardCharsets.UTF_8);
    }

    /** A client.id that Kafka has made up, such as producer-1, names nobody. */
    private static String name(String given, Object client, String host) {
        if (!given.isEmpty()) {
            return given;
        }
        return client == null || client.toString().matches("(producer-\\d+)?") ? host : client.toString();
    }

    private static ConfigDef.Validator limit() {
        Range positive = Range.atLeast(1);
        return (key, value) -> {
            if (value != null) {
                positive.ensureValid(key, value);
            }
        };
    }

    private static String hostName() {
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException unknown) {
            return "unknown-host";
        }
    }
}
