package canary.receipts;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.security.SecureRandom;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.ArrayDeque;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Takes receipts from the producer's threads, which it never lets wait, and writes them to files from a thread of its
 * own. What it cannot keep is counted as dropped, and said.
 */
final class ReceiptLog {
    private static final Logger LOG = LoggerFactory.getLogger(ReceiptLog.class);

    /** How many full Rows wait for a disk that stalls: half a million receipts, about 25 MB. */
    private static final int WAITING = 16;

    private static final long CLOSING_MS = 10_000;
    private static final long RETRY_MS = 1000;

    private final Settings settings;
    private final String incarnation = String.format(Locale.ROOT, "%016x", new SecureRandom().nextLong());
    private final Instant beganAt = Instant.now();
    private final Thread writer = new Thread(this::run, "canary-receipts");
    private volatile String clusterId;

    private final ArrayDeque<Rows> full = new ArrayDeque<>(); // this and what follows: guarded by full
    private Rows filling = new Rows();
    private long dropped;
    private long failed;
    private long withoutOffset;
    private boolean closing;

    private long sequence; // this and what follows: the writer's
    private long published;
    private long told;
    private String counted = "";
    private boolean failing;
    private ParquetFile file;
    private Path part;
    private Path name;

    ReceiptLog(Settings settings) {
        this.settings = settings;
        writer.setDaemon(true);
        writer.start();
    }

    void cluster(String id) {
        clusterId = id;
    }

    /** Keeps a receipt: timestamp in ms since the epoch, it and digest null where they are not known. */
    void add(String topic, int partition, long offset, Long timestamp, Long digest) {
        long now = now();
        synchronized (full) {
            if (filling.isFull() && full.size() < WAITING) {
                hand();
            }
            if (filling.isFull() || closing) {
                dropped++;
                return;
            }
            filling.add(topic, partition, offset, timestamp, now, digest);
        }
    }

    void dropped(int receipts) {
        synchronized (full) {
            dropped += receipts;
        }
    }

    void failed() {
        synchronized (full) {
            failed++;
        }
    }

    void withoutOffset() {
        synchronized (full) {
            withoutOffset++;
        }
    }

    /** Publishes what is kept. Gives up on a disk that stalls for ten seconds. */
    void close() {
        synchronized (full) {
            closing = true;
            full.notifyAll();
        }
        try {
            writer.join(CLOSING_MS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
        if (writer.isAlive()) {
            LOG.warn("Receipts are still being written to {} while the producer closes; the last may be lost",
                    settings.directory);
        }
    }

    private void hand() {
        filling.until = now();
        full.add(filling);
        filling = new Rows();
        full.notifyAll();
    }

    private static long now() {
        return TimeUnit.MILLISECONDS.toMicros(System.currentTimeMillis());
    }

    private void run() {
        long due = System.nanoTime() + settings.everyNs;
        boolean last = false;
        while (!last) {
            Rows rows = take(due);
            last = rows.isLast;
            try {
                write(rows);
                if (last || System.nanoTime() - due >= 0 || file != null && file.rows() >= settings.rows) {
                    publish(rows.until, last);
                    due = System.nanoTime() + settings.everyNs;
                }
            } catch (Throwable problem) { // an Error, too: whatever it is, the application goes on
                abandon(rows, problem);
                due = System.nanoTime() + settings.everyNs;
            }
        }
    }

    /** Returns the next full Rows; those that are being filled when the file is due or the producer closes. */
    private Rows take(long due) {
        synchronized (full) {
            while (full.isEmpty()) {
                long rest = TimeUnit.NANOSECONDS.toMillis(due - System.nanoTime());
                if (closing || rest <= 0) {
                    filling.isLast = closing;
                    hand();
                } else {
                    await(rest);
                }
            }
            return full.poll();
        }
    }

    private void await(long milliseconds) {
        try {
            full.wait(milliseconds);
        } catch (InterruptedException nobody) {
            LOG.debug("The thread that writes receipts goes on until the producer closes");
        }
    }

    private void write(Rows rows) throws IOException {
        if (rows.count == 0) {
            return;
        }
        if (file == null) {
            open(rows.ackedAt[0]);
        }
        file.append(rows);
    }

    private void open(long firstUs) throws IOException {
        String base = String.format(Locale.ROOT, "%s--%s--%010d.parquet", settings.filePart(), incarnation, sequence);
        Path folder = settings.directory.resolve(instant(firstUs).atOffset(ZoneOffset.UTC).toLocalDate().toString());
        Files.createDirectories(folder);
        name = folder.resolve(base);
        part = folder.resolve("." + base + ".part");
        Files.deleteIfExists(part); // of an attempt that failed
        file = new ParquetFile(part, settings.transactional);
    }

    /** Publishes the open file. Without one it makes an empty file if the producer closes or its counts have changed. */
    private void publish(long until, boolean last) throws IOException {
        String counts = counts();
        if (file == null) {
            if (!last && counts.equals(counted)) {
                return;
            }
            open(until);
        }
        long receipts = published + file.rows();
        file.finish("canary.receipts", metadata(until, last, receipts, counts), "canary-receipts version " + version());
        file.close();
        Files.move(part, name, StandardCopyOption.ATOMIC_MOVE);
        file = null;
        published = receipts;
        counted = counts;
        sequence++;
        flush(name.getParent());
        flush(settings.directory);
        if (failing) {
            failing = false;
            LOG.info("Receipts are written to {} again", settings.directory);
        }
    }

    private String counts() {
        tellDropped();
        synchronized (full) {
            return ",\"dropped\":" + dropped + ",\"failed\":" + failed + ",\"aborted\":0,\"without_offset\":" + withoutOffset;
        }
    }

    private void tellDropped() {
        long now;
        synchronized (full) {
            now = dropped;
        }
        if (now > told) {
            told = now;
            LOG.warn("{} receipts were lost so far: {} is too slow or cannot be written", now, settings.directory);
        }
    }

    /** Makes the names in a folder safe. */
    private static void flush(Path folder) {
        try (FileChannel opened = FileChannel.open(folder, StandardOpenOption.READ)) {
            opened.force(true);
        } catch (IOException unsupported) {
            LOG.debug("{} cannot be flushed", folder, unsupported);
        }
    }

    /** Gives up the open file, and complains once until one is published again. Rows without a file wait for one. */
    private void abandon(Rows rows, Throwable problem) {
        if (!failing) {
            failing = true;
            LOG.warn("Receipts cannot be written to {}; the application goes on", settings.directory, problem);
        }
        ParquetFile lost = file;
        file = null;
        synchronized (full) {
            if (lost == null && !rows.isLast) {
                full.addFirst(rows);
            } else {
                dropped += lost == null ? rows.count : lost.rows();
            }
            if (!closing) {
                await(RETRY_MS);
            }
        }
        if (rows.isLast) {
            tellDropped();
        }
        try {
            if (lost != null) {
                lost.close();
                Files.deleteIfExists(part);
            }
        } catch (IOException again) {
            LOG.debug("{} is left behind", part, again);
        }
    }

    private String metadata(long until, boolean last, long receipts, String counts) {
        return "{\"version\":1,\"producer\":" + text(settings.name) + ",\"incarnation\":\"" + incarnation
                + "\",\"sequence\":" + sequence + ",\"host\":" + text(settings.host) + ",\"pid\":" + pid()
                + ",\"client\":" + text("canary-receipts (Java) " + version()) + ",\"began_at\":\"" + beganAt
                + "\",\"written_at\":\"" + instant(until) + "\",\"share\":1,\"per_second\":" + settings.perSecond
                + ",\"closed\":" + last + ",\"receipts\":" + receipts + counts
                + (clusterId == null ? "" : ",\"cluster_id\":" + text(clusterId)) + "}";
    }

    private static String text(String value) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char one : value.toCharArray()) {
            if (one < ' ' || one == '"' || one == '\\') {
                quoted.append(String.format(Locale.ROOT, "\\u%04x", (int) one));
            } else {
                quoted.append(one);
            }
        }
        return quoted.append('"').toString();
    }

    private static Instant instant(long us) {
        return Instant.EPOCH.plus(us, ChronoUnit.MICROS);
    }

    /** Returns the number of this process where Linux tells it, else 0: Java 8 has no word for it. */
    private static long pid() {
        try {
            return Long.parseLong(Paths.get("/proc/self").toRealPath().getFileName().toString());
        } catch (IOException | NumberFormatException unknown) {
            return 0;
        }
    }

    private static String version() {
        String version = ReceiptLog.class.getPackage().getImplementationVersion();
        return version == null ? "unknown" : version;
    }
}
