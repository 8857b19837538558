"""The network of one sandbox: opened, changed and closed with it.

`sandbox_network` opens the network door where the policy wants one. A sandbox without a network has
its attempts recorded instead (`absent_network`). `inside_door` takes the reports of programs that
use `paddock.inside`, at the network door or at a port of loopback.
"""
