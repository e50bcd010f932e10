package canary.receipts;

import java.util.concurrent.atomic.AtomicInteger;

/** Lets so many records a second have a receipt: the first of each tenth of a second. Closed, it costs a look at a clock. */
final class Gate {
    private static final long SLOT_MS = 100;

    private final int most;
    private final AtomicInteger left = new AtomicInteger();
    private volatile long slot;

    /** Null: each record gets a receipt. */
    Gate(Integer perSecond) {
        most = perSecond == null ? Integer.MAX_VALUE : (int) Math.max(1, Math.round(perSecond * SLOT_MS / 1000.0));
    }

    boolean isOpenToAll() {
        return most == Integer.MAX_VALUE;
    }

    boolean opens() {
        if (isOpenToAll()) {
            return true;
        }
        long now = System.currentTimeMillis() / SLOT_MS;
        if (now != slot) {
            synchronized (this) {
                if (now != slot) {
                    left.set(most);
                    slot = now;
                }
            }
        }
        return left.get() > 0 && left.getAndDecrement() > 0;
    }
}
