"""What sources in Amazon's cloud share: clients of a connection, and what their errors mean."""
