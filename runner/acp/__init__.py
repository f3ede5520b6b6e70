"""The client's side of the Agent Client Protocol, without any input or output: what may be sent when, what an agent's
messages mean, what a policy answers.

Imports `config`, `wire`.
"""

#: Modules that other rooms import; all others are this room's own.
__all__ = ["buffers", "client", "elicit", "events", "findings", "methods", "policy", "schema", "state", "toolcalls"]
