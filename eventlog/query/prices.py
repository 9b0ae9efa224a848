"""What model calls cost, by the list prices of the library `genai-prices` (the extra `cost`).

Nothing is fetched: prices are those of the installed version. A price is the provider's public price of such
a call at that time, without discounts, subscriptions or batches, so every cost is an estimate. A call is
priced only where the library knows its model and its counts are known and make sense; any other has no price,
which is not a price of 0 (P7). One thread.

    prompt − cache reads − cache writes    at the price of input
    cache reads                            at theirs
    cache writes                           at the price for an hour where they last one, else at that
                                           for five minutes; unknown counts of the cache are none
    completion                             at the price of output, reasoning included

Some models cost more per token above a size of the prompt, or at some times of the day. So calls are priced
together only within such a size, as SQL groups them by `THRESHOLDS`, and within `SLOT_US` of time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, Provider

LIBRARY = "genai-prices"
# Prices that depend on the time of the day change at full and half hours.
SLOT_US = 1_800_000_000


@dataclass(frozen=True, slots=True)
class PriceSource:
    """The source of prices: a library, its version, the day of the newest price that it knows."""

    library: str
    version: str
    newest_price: "date | None"

    def __str__(self) -> str:
        newest = f", which knows changes up to {self.newest_price}" if self.newest_price else ""
        return f"{self.library} {self.version}{newest}"


@dataclass(frozen=True, slots=True)
class TokenSums:
    """Sums over calls of one model, of one size of prompt, at one time."""

    prompt: int
    completion: int
    cache_read: int
    cache_write: int
    cache_write_1h: int


class Prices:
    """The prices of the installed library. Make one with `load`."""

    def __init__(self) -> None:
        from importlib.metadata import version

        from genai_prices.data_snapshot import get_snapshot

        self._snapshot = get_snapshot()
        self._known: dict[str, tuple[Provider, ModelInfo] | None] = {}
        starts: set[int] = set()
        newest: set[date] = set()
        for price, since in _all_prices(self._snapshot.providers):
            newest.update(day for day in (since,) if day is not None)
            starts.update(
                tier.start for value in vars(price).values() for tier in getattr(value, "tiers", ())
            )
        self.thresholds: tuple[int, ...] = tuple(sorted(starts))
        self.source = PriceSource(LIBRARY, version(LIBRARY), max(newest, default=None))

    def known_as(self, model: "str | None") -> "str | None":
        """`provider/model` under which the library has a model's price, None where it has none."""
        priced_as = None if model is None else self._find(model)
        return None if priced_as is None else f"{priced_as[0].id}/{priced_as[1].id}"

    def cost(self, model: "str | None", at_us: int, prompt_size: int, tokens: TokenSums) -> "Decimal | None":
        """US dollars for `tokens` of calls with prompts of about `prompt_size`, between two thresholds."""
        from genai_prices.types import ModelPrice, Usage

        priced_as = None if model is None else self._find(model)
        if priced_as is None:
            return None
        try:
            price = priced_as[1].get_prices(datetime.fromtimestamp(at_us / 1e6, UTC))
        except (ValueError, OverflowError, OSError):  # a time that no calendar has
            return None
        flat = {name: _flat(value, prompt_size) for name, value in vars(price).items() if name[0] != "_"}
        usage = Usage(
            input_tokens=tokens.prompt,
            output_tokens=tokens.completion,
            cache_read_tokens=tokens.cache_read,
            cache_write_tokens=tokens.cache_write,
            cache_write_1h_tokens=tokens.cache_write_1h,
        )
        try:
            return ModelPrice(**flat).calc_price(usage)["total_price"]
        except ValueError:  # such a mix of counts has no price
            return None

    def _find(self, model: str) -> "tuple[Provider, ModelInfo] | None":
        if model not in self._known:
            self._known[model] = next(self._candidates(model), None)
        return self._known[model]

    def _candidates(self, model: str) -> "Iterator[tuple[Provider, ModelInfo]]":
        """The name as it is; then with the part before a slash as the provider; then Amazon Bedrock's."""
        names: list[tuple[str, str | None]] = [(model, None)]
        provider, slash, rest = model.partition("/")
        if slash:
            names += [(rest, provider), (rest, None)]
        elif "anthropic." in model:
            names.append((model, "aws"))
        for name, provider_name in names:
            try:
                yield self._snapshot.find_provider_model(name, None, provider_name, None)
            except LookupError:
                continue


def load() -> "Prices | None":
    """The prices of the installed library; None where it is not installed."""
    try:
        return Prices()
    except ImportError:
        return None


def _flat(value: Any, prompt_size: int) -> "Decimal | None":
    """The price at this size of prompt."""
    if value is None or isinstance(value, Decimal):
        return value
    above = [tier.price for tier in value.tiers if prompt_size > tier.start]
    price: Decimal = above[-1] if above else value.base
    return price


def _all_prices(providers: "list[Provider]") -> "Iterator[tuple[ModelPrice, date | None]]":
    for provider in providers:
        for model in provider.models:
            if not isinstance(model.prices, list):
                yield model.prices, None
                continue
            for conditional in model.prices:
                yield conditional.prices, getattr(conditional.constraint, "start_date", None)
