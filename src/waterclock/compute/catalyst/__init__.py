"""All contact with Spark's JVM: reading Catalyst's trees, and building expressions for them."""
