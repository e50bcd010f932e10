package canary.receipts;

import java.util.concurrent.atomic.AtomicInteger;

/** Lets so many records a second have a receipt: the first of each tenth of a second. Closed, it costs a look at a clock. */
final class Gate {
    private static final long SLOT_MS = 100;

    private static final long SLOTS = 1000 / SLOT_MS;

    private final long perSecond;
    private final AtomicInteger left = new AtomicInteger();
    private volatile long slot;

    /** Null: each record gets a receipt. */
    Gate(Integer perSecond) {
        this.perSecond = perSecond == null ? Integer.MAX_VALUE : perSecond;
    }

    boolean isOpenToAll() {
        return perSecond == Integer.MAX_VALUE;
    }

    boolean opens() {
        if (isOpenToAll()) {
            return true;
        }
        long now = System.currentTimeMillis() / SLOT_MS;
        if (now != slot) {
            synchronized (this) {
                if (now != slot) {
                    long number = now % SLOTS; // fewer than ten a second have none in some slots
                    left.set((int) ((number + 1) * perSecond / SLOTS - number * perSecond / SLOTS));
                    slot = now;
                }
            }
        }
        return left.get() > 0 && left.getAndDecrement() > 0;
    }
}
