"""The recorder: sessions and turns as events, for programs that record themselves.

Owns the lifecycle (start and end of sessions and turns, rollover), the shape of lifecycle and
timeline payloads, and the choice of ids. May import the store and every room below it; knows
nothing of any agent.
"""
