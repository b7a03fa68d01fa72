-- insert_op: record that an operation was committed; a repeat changes nothing. Waits for another with
-- the same id that is not committed yet. $2 is null where the database's clock is the store's.
insert into op (id, at, actor) values ($1, coalesce($2, sichen_now()), $3) on conflict (id) do nothing
