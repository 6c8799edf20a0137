package waterclock;

/**
 * Ends the JVM when one of its threads dies of an error that it can not go on after.
 *
 * A task that runs out of memory only fails: Spark catches that, and gives its memory back. But
 * when a thread of Spark itself dies, one that schedules jobs or hands out results, say, the JVM
 * would live on without ever finishing anything. Whoever has started it notices that it has ended,
 * and starts another one.
 */
public final class Mortal implements Thread.UncaughtExceptionHandler {
    private static final int OUT_OF_MEMORY = 52;
    private static final int OTHER = 50;

    private Mortal() {}

    public static void install() {
        Thread.setDefaultUncaughtExceptionHandler(new Mortal());
    }

    public void uncaughtException(Thread thread, Throwable error) {
        try {
            System.err.println("thread " + thread.getName() + " has died: " + error);
        } finally {
            if (error instanceof OutOfMemoryError) {
                Runtime.getRuntime().halt(OUT_OF_MEMORY);
            } else if (error instanceof VirtualMachineError) {
                Runtime.getRuntime().halt(OTHER);
            }
        }
    }
}
