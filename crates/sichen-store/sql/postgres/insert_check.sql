-- insert_check: that a run of a backfill succeeded, and is to be checked if the backfill wants that.
insert into backfill_check (run_id, round, backfill, state, at)
select $1::bigint, $2::bigint, id, 'due', $4::bigint from backfill where id = $3 and verify_job is not null
