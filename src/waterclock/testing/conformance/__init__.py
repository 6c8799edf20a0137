"""One suite per port: what every implementation must pass, as classes of tests to inherit from."""
