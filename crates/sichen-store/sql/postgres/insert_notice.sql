-- insert_notice: what is to be sent, once.
insert into notice (id, receiver, body, created_at, due_at, tries) values ($1, $2, $3, $4, $5, $6) on conflict (id) do nothing
