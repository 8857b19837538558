"""Secrets: values that stay in the host process, and placeholders that the sandbox has instead.

`sources` loads values, `keeper` holds them. `custody` is what the rest of the door uses: it puts
values into requests (`injection`), takes them out of answers (`scrubber`) and notices a placeholder
that is on its way elsewhere (`leaks`). `signatures` compares credentials that clients compute.
"""
