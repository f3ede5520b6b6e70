"""The ways to drive an agent.

`driver` is the loop that they share, `pipe` the agent's streams; `acp` and `cli` stand on it.
"""
