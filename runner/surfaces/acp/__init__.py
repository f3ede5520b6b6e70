"""An agent driven over the Agent Client Protocol: session, set-up, callbacks, documents, probes."""
