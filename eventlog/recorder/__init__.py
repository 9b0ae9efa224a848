"""The recorder: sessions and turns as events (seeds 000 and 001).

Owns the lifecycle (start and end of sessions and turns, rollover), the shape of lifecycle and
timeline payloads, and the choice of ids. May import the store and every room below it; knows
nothing of any agent.
"""
