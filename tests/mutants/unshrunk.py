"""A pytest plugin: who only asks whether a test fails does not wait for the smallest example."""

from hypothesis import Phase, settings

settings.register_profile(
    "unshrunk", deadline=None, derandomize=True, database=None, phases=(Phase.explicit, Phase.generate)
)
