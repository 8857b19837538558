"""The container fence: bubblewrap, namespaces, seccomp, cgroups, an own uid per sandbox."""
