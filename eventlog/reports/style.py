"""The style sheet of a page, for light and dark."""

STYLE = """
:root { --back: #f5f6f8; --card: #ffffff; --ink: #1d2127; --dim: #646b76; --line: #e4e7eb; --bar: #4a7bd8;
  --track: #eceff3; --bad: #cf5148; --good: #2b8a57; --hover: #00000008; }
@media (prefers-color-scheme: dark) {
  :root { --back: #14171b; --card: #1c2026; --ink: #e3e6ea; --dim: #949ca8; --line: #2c323a; --bar: #6c9bf0;
    --track: #2a3038; --bad: #e8766d; --good: #5dbd8a; --hover: #ffffff0c; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 36px 20px 48px; }
header { margin-bottom: 22px; }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 15px; margin: 0 0 12px; }
p { margin: 0; }
.dim { color: var(--dim); font-size: 13px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(165px, 1fr)); gap: 14px;
  margin-bottom: 14px; }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 16px 18px; }
.what { color: var(--dim); font-size: 13px; }
.figure { font-size: 25px; font-weight: 620; line-height: 1.35; min-height: 34px;
  font-variant-numeric: tabular-nums; }
.card { margin-bottom: 14px; min-width: 0; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); gap: 0 14px;
  align-items: start; }
.chart { display: block; width: 100%; height: auto; }
.bar { fill: var(--bar); } .bad { fill: var(--bad); } .track { fill: var(--track); }
.hover { fill: transparent; } g:hover .hover { fill: var(--hover); }
.grid { stroke: var(--line); stroke-width: 1; }
.tick { fill: var(--dim); font-size: 12px; }
.share { display: block; width: 100%; min-width: 60px; height: 7px; border-radius: 3px; overflow: hidden; }
.wide { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th { color: var(--dim); font-weight: 500; font-size: 12.5px; text-align: right; white-space: nowrap; }
th, td { padding: 6px 0 6px 16px; border-bottom: 1px solid var(--line); }
td { text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; white-space: normal;
  overflow-wrap: anywhere; }
td:first-child { min-width: 150px; }
tbody tr:last-child td { border-bottom: 0; }
code, .path { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: 12.5px; }
code { color: var(--dim); }
.plus { color: var(--good); } .minus { color: var(--bad); }
footer { margin-top: 22px; max-width: 760px; } footer p { margin-bottom: 6px; }
.card > .dim { margin-top: 8px; }
@media print { body { background: none; } .card, .tile { break-inside: avoid; } }
"""
