-- delete_hold: attempts that have surely ended hold nothing.
delete from hold h using unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[]) i (run_id, no, token, capacity)
where h.run_id = i.run_id and h.no = i.no and h.token = i.token and h.capacity = i.capacity
