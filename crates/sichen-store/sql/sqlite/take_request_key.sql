-- take_request_key: the key ?1 is that of another attempt from now on.
update request_key set holder = ?2, node_id = ?3, held_at = ?4, status = null, kind = null, body = null where key = ?1
