-- shift_nodes: leases of nodes that have not ended at ?2, later by ?1.
-- scans: node
update node set expires_at = expires_at + ?1 where expires_at > ?2
