"""The style sheet of our pages: light and dark, for wide and narrow windows and for paper."""

from __future__ import annotations

STYLE = """
:root {
  --paper: #fbfaf8; --card: #ffffff; --ink: #1f2328; --soft: #5c646d; --line: #e2dfd9;
  --good: #1a7f4b; --good-bg: #e4f4ea; --bad: #b3261e; --bad-bg: #fbe9e7;
  --warn: #8a5a00; --warn-bg: #fdf1d8; --info: #1d5fae; --info-bg: #e5eefa; --quiet-bg: #efedea;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #15181c; --card: #1c2026; --ink: #e4e6e9; --soft: #9aa3ad; --line: #31373f;
    --good: #6fd49a; --good-bg: #16321f; --bad: #ff9b91; --bad-bg: #3d1b18;
    --warn: #f0c26a; --warn-bg: #382a10; --info: #8fbcf5; --info-bg: #172b45;
    --quiet-bg: #2a2f36;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
main { max-width: 88rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 0 0 .75rem; }
section {
  background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 1.1rem 1.25rem; margin: 0 0 1.1rem;
}
p { margin: .35rem 0 .75rem; overflow-wrap: anywhere; }
p:last-child { margin-bottom: 0; }
p.good, p.bad, p.warn, p.info {
  padding: .6rem .85rem; border-radius: 7px; border-left: 4px solid;
}
.good { color: var(--good); } .bad { color: var(--bad); }
.warn { color: var(--warn); } .info { color: var(--info); } .quiet { color: var(--soft); }
p.good, .badge.good { background: var(--good-bg); } p.bad, .badge.bad { background: var(--bad-bg); }
p.warn, .badge.warn { background: var(--warn-bg); }
p.info, .badge.info { background: var(--info-bg); }
.badge {
  display: inline-block; padding: .05rem .5rem; border-radius: 999px; font-size: .8rem;
  line-height: 1.45; white-space: nowrap; max-width: 100%; overflow: hidden;
  text-overflow: ellipsis; vertical-align: middle;
}
.badge.quiet { background: var(--quiet-bg); }
code, pre {
  font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: .86em;
}
code { overflow-wrap: anywhere; }
td code.short, th code.short { white-space: nowrap; }
td code.long { display: inline-block; min-width: 13rem; }
pre {
  margin: .4rem 0; padding: .7rem .85rem; border-radius: 7px; background: var(--paper);
  border: 1px solid var(--line); white-space: pre-wrap; overflow-wrap: anywhere;
  max-height: 32rem; overflow-y: auto;
}
.wide { overflow-x: auto; margin: 0 -.25rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th {
  text-align: left; font-weight: 600; color: var(--soft); font-size: .78rem;
  border-bottom: 1px solid var(--line); padding: .3rem .5rem; white-space: nowrap;
}
td { padding: .38rem .5rem; border-bottom: 1px solid var(--line); vertical-align: top; }
tbody tr:last-child td { border-bottom: 0; }
td { min-width: 2rem; font-variant-numeric: tabular-nums; }
tr.good, tr.bad, tr.warn, tr.info { color: var(--ink); }
tr.good .badge, tr.bad .badge, tr.warn .badge, tr.info .badge { background: var(--card); }
td.short { white-space: nowrap; }
tr.good > td:first-child { box-shadow: inset 3px 0 var(--good); }
tr.bad > td:first-child { box-shadow: inset 3px 0 var(--bad); }
tr.warn > td:first-child { box-shadow: inset 3px 0 var(--warn); }
tr.info > td:first-child { box-shadow: inset 3px 0 var(--info); }
tr.bad { background: var(--bad-bg); } tr.warn { background: var(--warn-bg); }
tr.info { background: var(--info-bg); } tr.good { background: var(--good-bg); }
details { margin: .3rem 0; }
summary { cursor: pointer; overflow-wrap: anywhere; }
details[open] > summary { margin-bottom: .5rem; }
.beside { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; }
.beside > div { min-width: 0; }
footer { color: var(--soft); font-size: .85rem; margin-top: 1.5rem; }
@media (max-width: 42rem) {
  main { padding: 1rem .75rem 3rem; }
  section { padding: .9rem; border-radius: 8px; }
  .beside { grid-template-columns: 1fr; }
}
@media print {
  body { background: #fff; } section { break-inside: avoid; } pre { max-height: none; }
}
"""
