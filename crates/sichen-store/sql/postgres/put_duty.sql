-- put_duty: a duty's new owner under its next term (guard: the term rises).
insert into duty (key, term, node_id, ver) values ($1, $2, $3, $4)
on conflict (key) do update set term = excluded.term, node_id = excluded.node_id, ver = excluded.ver
where duty.term < excluded.term
