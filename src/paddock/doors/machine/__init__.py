"""The machine door: sandboxes, and everything that callers do with them.

Callers meet `Sandbox` and `AsyncSandbox`. Their methods (`calls`, `lifecycle`) run on the engine,
one event loop in a thread of its own (`engine`, `faces`). A sandbox is a `Box` (`box`), which makes
the parts and passes each what it needs: the way to the guest (`guest`), the gate and its journal
(`sandbox_gate`), calls as actions (`actions`), programs that programs start (`programs`), the
network and its secrets (`network`), the world (`worlds`). A call becomes an action, the gate
decides, and what it lets through goes to the guest (`processes`, `files`, `code`). `control` and
`remote` let other processes of the user reach a sandbox; `pool` keeps machines warm.
"""
