-- list_notices: what is to be sent by $1, at most $2.
select id, receiver, body, created_at, due_at, tries from notice where due_at <= $1 order by due_at, id limit $2
