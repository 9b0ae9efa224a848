"""What share of realistic secrets Locus takes out, and what it takes out that is none: `python -m benchmarks.secrets`.

Kinds of secrets are data (`tokens.toml`, `services.toml`, `places.toml`,
`held_out.toml`), from vendors' documents and not from
Locus' rules; `generator` makes values and texts of them.
"""
