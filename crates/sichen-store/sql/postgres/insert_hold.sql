-- insert_hold: attempts that were just granted hold what their runs use.
insert into hold (run_id, no, token, capacity, units, session_id, since)
select i.run_id, i.no, i.token, i.capacity, i.units, i.session_id, i.since
from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[])
  i (run_id, no, token, capacity, units, session_id, since)
