"""What may leave a store for a lake: the settings of `[publish]` (docs/lake.md §3). Values; any thread."""

from dataclasses import asdict, dataclass

from eventlog.base import config, jsontext
from eventlog.base.errors import Corruption
from eventlog.base.fs import FileSystem
from eventlog.base.layout import Layout


@dataclass(frozen=True, slots=True)
class Policy:
    """Which classes leave beside figures. `people` is one of config.PEOPLE."""

    texts: bool = False
    contents: bool = False
    paths: bool = True
    people: str = config.PEOPLE[1]

    @classmethod
    def of(cls, fs: FileSystem, layout: Layout) -> "Policy":
        """The policy that the settings of the store at `layout` ask for; they never raise."""
        settings = config.read(fs, layout)
        return cls(
            settings.publish_texts, settings.publish_contents, settings.publish_paths, settings.publish_people
        )

    def encoded(self) -> str:
        """As JSON, sorted by key: what the metadata of published files say."""
        return jsontext.encode(dict(sorted(asdict(self).items()))).decode()

    @classmethod
    def decode(cls, text: str, location: str = "the policy of a published file") -> "Policy":
        """Raises: Corruption, which names `location`."""
        try:
            values = jsontext.decode(text)
            policy = cls(**values)
        except (ValueError, TypeError) as error:
            raise Corruption(location, f"it is no policy: {error}") from error
        flags = (policy.texts, policy.contents, policy.paths)
        if not all(isinstance(flag, bool) for flag in flags) or policy.people not in config.PEOPLE:
            raise Corruption(location, f"it is no policy: {text}")
        return policy

    def widens(self, other: "Policy") -> bool:
        """Whether it lets something out that the other holds back."""
        pairs = ((self.texts, other.texts), (self.contents, other.contents), (self.paths, other.paths))
        degree = config.PEOPLE.index
        return any(own and not former for own, former in pairs) or degree(self.people) > degree(other.people)
