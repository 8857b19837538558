"""Programs that programs inside a sandbox start: each exec is judged before it happens.

The fence holds the caller and gives the attempt to the judge (`exec_judge`), which makes actions of
it (`exec_actions`) and has the gate decide. In a run of an agent the programs that the agent itself
starts are steps (`agent_processes`). `kill_fault` ends programs where a fault says so.
"""
