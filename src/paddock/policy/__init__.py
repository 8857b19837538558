"""The policy of an agent: the paddock file, and decisions on actions. No I/O.

    text ──► file.document ──► definitions of sections ──► Terms ──► Policy.decide ──► Decision
    values of a Python caller ─────────────┘

Each section of the file is defined in one module, its values together with how they are written:
`network`, `secrets`, `world`, `faults`, `tools`, `rules`, and `terms` for the whole file. `section`
is the language of these definitions. `file` reads and writes the text.

`decide.Policy` compiles the terms once (`compile`, `effects`, `expressions` in CEL over a
`subject`) and decides on an action from what the rules, the network (`reach`) and the stage
(`stages`) say; the strictest holds. `fields` says what a rule can match on, `globs` how patterns
match. `analysis` answers questions about a whole file.
"""
