package waterclock;

import org.apache.spark.TaskContext;
import org.apache.spark.sql.internal.SQLConf;

/**
 * How much one call may make or do. What is beyond that is an error of the value, not the end of the
 * JVM. The bounds are Spark's settings, which the server takes from its own; so all executors have
 * them, and expressions that are evaluated while a query is planned.
 */
final class Budgets {
    /** What waterclock.compute.faults knows by heart. */
    static final String VALUE_TOO_LARGE = "the value is too large";
    static final String PATTERN_TOO_SLOW = "matching the pattern takes too many steps";
    private static final long VALUE_BYTES = 64L << 20;
    private static final long PATTERN_STEPS = 100L * 1000 * 1000;
    private static volatile long valueBytes = 0;
    private static volatile long patternSteps = 0;

    private Budgets() {}

    static long valueBytes() {
        if (valueBytes > 0) return valueBytes;
        long found = setting("spark.waterclock.maxValueBytes");
        if (found > 0) valueBytes = found;
        return found > 0 ? found : VALUE_BYTES;
    }

    static long patternSteps() {
        if (patternSteps > 0) return patternSteps;
        long found = setting("spark.waterclock.maxPatternSteps");
        if (found > 0) patternSteps = found;
        return found > 0 ? found : PATTERN_STEPS;
    }

    /** What a session was told; tasks are told what their session was. 0 if that is nothing. */
    private static long setting(String name) {
        return Long.parseLong(SQLConf.get().getConfString(name, "0"));
    }

    /** Raises 54000 if a value would have more bytes than any may have. */
    static void requireBytes(double bytes) {
        if (bytes > valueBytes()) throw Faults.raised("54000", VALUE_TOO_LARGE);
    }

    /** Ends the task if its job has been cancelled. */
    static void requireWanted() {
        TaskContext task = TaskContext.get();
        if (task != null) {
            task.killTaskIfInterrupted();
        } else if (Thread.currentThread().isInterrupted()) {
            throw Faults.raised("57014", "canceling statement due to user request");
        }
    }
}
