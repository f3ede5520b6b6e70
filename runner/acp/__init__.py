"""The client's side of the Agent Client Protocol, without any input or output: what may be sent when, what an agent's
messages mean, what a policy answers. Imports `wire` and `config`."""
