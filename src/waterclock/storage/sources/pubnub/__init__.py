"""PubNub as a source: channels whose messages are delivered once and soon forgotten."""
