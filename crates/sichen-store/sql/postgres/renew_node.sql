-- renew_node: push out a node's lease if it has not ended ($3: now).
update node set expires_at = $2 where id = $1 and expires_at > $3
