"""Questions about a whole paddock file, apart from deciding on an action.

`review` finds mistakes and doubts (`coverage`: rules that never decide; `examples`: examples that
do not hold), `lint` reports them with their place, also as SARIF. `explanation` says why an action
is decided as it is, `candidate` what another file would have decided about recorded actions, and
`proposed_file` writes the smallest file that recorded runs needed.
"""
