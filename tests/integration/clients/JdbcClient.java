// What a program does through pgjdbc, told line by line; the lines are compared with PostgreSQL's.

import java.sql.*;
import java.util.*;

public class JdbcClient {
    public static void main(String[] args) throws Exception {
        try (Connection c = DriverManager.getConnection(args[0])) {
            DatabaseMetaData m = c.getMetaData();
            System.out.println("product " + m.getDatabaseProductName() + " " + m.getDatabaseMajorVersion());
            try (Statement s = c.createStatement()) {
                s.execute("DROP TABLE IF EXISTS jdbc_rows");
                s.execute("CREATE TABLE jdbc_rows (id int NOT NULL, name text, price numeric(10,2), at timestamptz, d date, b boolean, l bigint, f float8, u uuid, a int[])");
            }
            try (PreparedStatement p = c.prepareStatement("INSERT INTO jdbc_rows VALUES (?,?,?,?,?,?,?,?,?,?)")) {
                for (int i = 0; i < 20; i++) {
                    p.setInt(1, i); p.setString(2, "n" + i); p.setBigDecimal(3, new java.math.BigDecimal("1.50"));
                    p.setTimestamp(4, Timestamp.valueOf("2024-01-02 03:04:05")); p.setDate(5, java.sql.Date.valueOf("2024-02-29"));
                    p.setBoolean(6, true); p.setLong(7, 1L << 40); p.setDouble(8, 1.5); p.setObject(9, new UUID(0, i));
                    p.setArray(10, c.createArrayOf("int4", new Integer[] {1, null, 3}));
                    p.addBatch();
                }
                System.out.println("batch " + p.executeBatch().length);
            }
            try (PreparedStatement p = c.prepareStatement("SELECT * FROM jdbc_rows WHERE id = ?")) {
                for (int i = 0; i < 10; i++) {
                    p.setInt(1, i);
                    try (ResultSet r = p.executeQuery()) {
                        if (!r.next()) throw new Exception("no row " + i);
                        if (i == 0 || i == 9) System.out.println("row " + r.getInt(1) + " " + r.getString(2) + " " + r.getBigDecimal(3) + " " + r.getTimestamp(4).toInstant() + " " + r.getDate(5) + " " + r.getBoolean(6) + " " + r.getLong(7) + " " + r.getDouble(8) + " " + r.getObject(9) + " " + r.getArray(10));
                    }
                }
            }
            c.setAutoCommit(false);
            try (Statement s = c.createStatement()) {
                s.setFetchSize(7);
                int n = 0;
                try (ResultSet r = s.executeQuery("SELECT id FROM jdbc_rows ORDER BY id")) { while (r.next()) n++; }
                System.out.println("fetched " + n);
            }
            c.commit();
            Savepoint sp = c.setSavepoint();
            try (Statement s = c.createStatement()) { s.executeUpdate("INSERT INTO jdbc_rows (id) VALUES (99)"); }
            c.rollback(sp); c.commit();
            c.setAutoCommit(true);
            try (Statement s = c.createStatement(); ResultSet r = s.executeQuery("SELECT count(*) FROM jdbc_rows")) { r.next(); System.out.println("count " + r.getLong(1)); }
            try (Statement s = c.createStatement()) {
                s.executeUpdate("INSERT INTO jdbc_rows (id, name) VALUES (100, 'k')", Statement.RETURN_GENERATED_KEYS);
                try (ResultSet r = s.getGeneratedKeys()) { r.next(); System.out.println("key " + r.getInt("id")); }
            }
            System.out.println("valid " + c.isValid(5));
            try (ResultSet r = m.getTables(null, "public", "jdbc_rows", null)) { while (r.next()) System.out.println("table " + r.getString("TABLE_NAME") + " " + r.getString("TABLE_TYPE")); }
            try (ResultSet r = m.getColumns(null, "public", "jdbc_rows", null)) { while (r.next()) System.out.println("column " + r.getString("COLUMN_NAME") + " " + r.getString("TYPE_NAME") + " " + r.getInt("NULLABLE") + " " + r.getInt("COLUMN_SIZE")); }
            try (ResultSet r = m.getSchemas()) { while (r.next()) if (!r.getString(1).startsWith("mz_") && !r.getString(1).startsWith("pg_toast")) System.out.println("schema " + r.getString(1)); }
            try (ResultSet r = m.getPrimaryKeys(null, "public", "jdbc_rows")) { System.out.println("keys " + r.next()); }
            try (ResultSet r = m.getIndexInfo(null, "public", "jdbc_rows", false, true)) { System.out.println("indexes " + r.next()); }
            try (ResultSet r = m.getTypeInfo()) { int n = 0; while (r.next()) n++; System.out.println("types " + (n > 20)); }
            try (PreparedStatement p = c.prepareStatement("SELECT id, name FROM jdbc_rows WHERE id > ?")) {
                ResultSetMetaData d = p.getMetaData(); ParameterMetaData q = p.getParameterMetaData();
                System.out.println("meta " + d.getColumnTypeName(1) + " " + d.getColumnTypeName(2) + " " + d.getTableName(1) + " " + q.getParameterTypeName(1));
            }
            try (Statement s = c.createStatement()) { s.executeQuery("SELECT nothing FROM jdbc_rows"); }
            catch (SQLException x) { System.out.println("error " + x.getSQLState()); }
            org.postgresql.copy.CopyManager copy = new org.postgresql.copy.CopyManager((org.postgresql.core.BaseConnection) c);
            System.out.println("copied " + copy.copyIn("COPY jdbc_rows (id, name) FROM STDIN", new java.io.StringReader("1000\tx\n1001\ty\n")));
            java.io.StringWriter w = new java.io.StringWriter();
            System.out.println("copied out " + copy.copyOut("COPY (SELECT id FROM jdbc_rows WHERE id >= 1000 ORDER BY id) TO STDOUT", w) + " " + w.toString().replace("\n", ","));
            try (Statement s = c.createStatement()) { s.setQueryTimeout(1); s.executeQuery("SELECT pg_sleep(5)"); }
            catch (SQLException x) { System.out.println("timeout " + x.getSQLState()); }
        }
    }
}
