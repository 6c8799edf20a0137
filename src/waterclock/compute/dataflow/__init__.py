"""Running plans on Spark: levels of stateful operators, and Catalyst in between."""
