import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Named checks, several at a time, each within a time limit; one line of output a check, which the
 * test module reads.
 *
 * <pre>
 *   ok    NAME  milliseconds
 *   fail  NAME  what went wrong, in one line
 *   note  NAME  a remark
 * </pre>
 *
 * A check that hangs fails like any other; the process then ends all the same.
 */
final class Checks {
    interface Body {
        void run() throws Exception;
    }

    private static final int LIMIT_S = 60;
    private static final int AT_A_TIME = 6;

    private final String only;
    private final ExecutorService workers = Executors.newFixedThreadPool(AT_A_TIME);

    /** @param only the one check to run; null or empty runs all. */
    Checks(String only) {
        this.only = only == null || only.isEmpty() ? null : only;
    }

    void check(String name, Body body) {
        if (only == null || only.equals(name)) {
            workers.execute(() -> run(name, body));
        }
    }

    /** Wait for all checks and end the process. */
    void finish() throws InterruptedException {
        workers.shutdown();
        workers.awaitTermination(1, TimeUnit.HOURS);
        System.exit(0);
    }

    private static void run(String name, Body body) {
        FutureTask<Void> task = new FutureTask<>(() -> {
            body.run();
            return null;
        });
        long start = System.nanoTime();
        Thread thread = new Thread(task, name);
        thread.setDaemon(true);
        thread.start();
        try {
            task.get(LIMIT_S, TimeUnit.SECONDS);
            say("ok", name, String.valueOf(Duration.ofNanos(System.nanoTime() - start).toMillis()));
        } catch (ExecutionException error) {
            say("fail", name, oneLine(error.getCause()));
        } catch (TimeoutException error) {
            StringBuilder where = new StringBuilder("still running after " + LIMIT_S + " s at");
            for (StackTraceElement frame : thread.getStackTrace()) {
                where.append(" < ").append(frame);
            }
            say("fail", name, where.toString());
        } catch (InterruptedException error) {
            say("fail", name, "interrupted");
        }
    }

    /** A remark of a check, for who runs it by hand. */
    static void note(String name, String remark) {
        say("note", name, remark);
    }

    static synchronized void say(String... columns) {
        System.out.println(String.join("\t", columns));
        System.out.flush();
    }

    private static String oneLine(Throwable error) {
        StringWriter text = new StringWriter();
        error.printStackTrace(new PrintWriter(text));
        return text.toString().replaceAll("\\s+", " ");
    }

    static void same(Object expected, Object seen) {
        if (!Objects.deepEquals(expected, seen)) {
            throw new AssertionError("expected " + show(expected) + " but saw " + show(seen));
        }
    }

    static void holds(boolean condition, String otherwise) {
        if (!condition) {
            throw new AssertionError(otherwise);
        }
    }

    /** Run the body, which must fail with this exception, bare or as a cause; return it. */
    static <E extends Throwable> E raises(Class<E> kind, Body body) {
        try {
            body.run();
        } catch (Throwable error) {
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                if (kind.isInstance(cause)) {
                    return kind.cast(cause);
                }
            }
            throw new AssertionError("expected " + kind.getSimpleName() + " but saw " + oneLine(error));
        }
        throw new AssertionError("expected " + kind.getSimpleName() + " but nothing was raised");
    }

    interface Condition {
        boolean met() throws Exception;
    }

    /** Wait until the condition is met, asking again and again. */
    static void await(String what, Condition condition) throws Exception {
        long end = System.nanoTime() + Duration.ofSeconds(30).toNanos();
        while (!condition.met()) {
            holds(System.nanoTime() < end, "not within 30 s: " + what);
            Thread.sleep(20);
        }
    }

    /** Properties of alternating names and values. */
    static Properties properties(Object... namesAndValues) {
        Properties properties = new Properties();
        for (int i = 0; i < namesAndValues.length; i += 2) {
            properties.put(namesAndValues[i], String.valueOf(namesAndValues[i + 1]));
        }
        return properties;
    }

    private static String show(Object value) {
        if (value instanceof byte[] bytes) {
            return java.util.HexFormat.of().formatHex(bytes);
        }
        if (value instanceof List<?> || value instanceof Map<?, ?>) {
            String text = value.toString();
            return text.length() < 600 ? text : text.substring(0, 600) + "...";
        }
        return String.valueOf(value);
    }
}
