"""What outlives a call: layers, snapshots, volumes, templates, leases. Knows no fence."""
