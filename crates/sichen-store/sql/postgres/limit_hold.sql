-- limit_hold: attempts ended and nobody has confirmed it: what they held counts until their trees are surely gone.
update hold h set until = i.until
from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[]) i (run_id, no, token, capacity, until)
where h.run_id = i.run_id and h.no = i.no and h.token = i.token and h.capacity = i.capacity
