"""What Locus takes for secrets, rightly and wrongly: `python -m benchmarks.secrets`.

Kinds of secrets are data (`tokens.toml`, `services.toml`, `places.toml`,
`held_out.toml`), from what is publicly known of them and not from
Locus' rules; `generator` makes values and texts of them.
"""
