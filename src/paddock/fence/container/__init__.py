"""The container driver: bubblewrap, namespaces, seccomp and control groups.

A start goes through four processes. The host process (`driver`) plans the file system (`rootfs`,
`plan`) and asks its keeper (`keeper_link`, `keeper`), which clones and maps the mounts (`launch`,
`mounts`) and has the nursery (`nursery`) fork a guest into new namespaces. The guest reports over a
boot socket (`boot`) when all limits are in force, and hands over the seccomp listener and sockets
of its network. From then on `machine` is the running sandbox: `notifier` answers every exec that
the kernel holds, `file_audit` is told of files, `cgroups` limits and freezes, `network` can be
opened.
"""
