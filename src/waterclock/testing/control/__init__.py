"""A deterministic simulation of the whole control plane.

Everything above the ports of persist and beside the engine is the real thing: store, storage,
oracle, catalog, writer of tables, coordinator, sources loop, schedule of views, sessions. Its
threads take turns as a seed decides (`scheduler`), its event loop waits for them (`loop`), its log
and blobs are in memory and can be slow, full, failing or cut off (`ports`), and its dataflows are
computed by a small engine without a JVM (`engine`). Clients run random statements in many sessions
and are cancelled at any await point (`clients`); what they were told is written down (`history`)
and compared with what is durable (`checker`).
"""
