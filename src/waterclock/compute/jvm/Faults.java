package waterclock;

import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.errors.QueryExecutionErrors$;
import org.apache.spark.unsafe.types.UTF8String;

/** Errors of values, just as Spark's RAISE_ERROR makes them; see waterclock.sql.dialect.faults. */
final class Faults {
    private Faults() {}

    static RuntimeException raised(String sqlstate, String message) {
        Object[] names = {UTF8String.fromString("errorMessage")};
        Object[] values = {UTF8String.fromString(sqlstate + " " + message)};
        return QueryExecutionErrors$.MODULE$.raiseError(
            UTF8String.fromString("USER_RAISED_EXCEPTION"),
            new ArrayBasedMapData(new GenericArrayData(names), new GenericArrayData(values)));
    }
}
