-- Fills a migrated schema with rows from..to of what a store looks like after a year: of each hundred
-- runs 80 are closed, 5 held, 5 ready, 10 wait for their time; half of all runs are of one job, and a
-- tenth of one shard's events are of one shard. All held shards rank before all ready ones.
alter table run set unlogged;
alter table shard set unlogged;
alter table event set unlogged;
alter table op set unlogged;
alter table decision set unlogged;
-- That wrote them anew, and "empty" would be known of them. Of a new store's tables nothing is known, and the
-- planner takes them for larger than they are.
update pg_class set relpages = 0, reltuples = -1
where oid in ('run'::regclass, 'shard'::regclass, 'event'::regclass, 'op'::regclass, 'decision'::regclass);

create function u(text) returns uuid language sql immutable as $$select md5($1)::uuid$$;
create function clock(bigint) returns bigint[] language sql immutable as $$select array[$1, $1, 30000000]$$;
create function ints(first bigint, step bigint, n bigint) returns bigint[] language sql immutable as
  $$select array_agg(first + step * i order by i) from generate_series(0, n - 1) i$$;
create function times(value bigint, n bigint) returns bigint[] language sql immutable as
  $$select array_fill(value, array[n::int])$$;
create function times(value text, n bigint) returns text[] language sql immutable as
  $$select array_fill(value, array[n::int])$$;

create function fill_few() returns void language sql as $$
select setval('event_seq', 2000000);
insert into job select u('job' || i), 'default', 'job' || i, 1, 1, '{}', i % 10 = 0, 0,
  case when i % 3 = 0 then i end, 1, 0, null, i % 64, 0, null,
  -- The marks of half of them were set by older zone data.
  '{"data":"2026' || case when i % 2 = 0 then 'a' else 'b' end || '","taken":{}}' from generate_series(0, 1999) i;
insert into namespace select 'team' || i, 1, 100, case when i % 10 = 5 then 5 end from generate_series(0, 999) i;
insert into revision select uid, 1, '{}' from job;
insert into account select 'u' || i, '{}' from generate_series(0, 999) i;
insert into access_token select 't' || i, 'api', repeat('0', 64), '*=viewer', null, '[]', null, 0, 'me', null, null, 1, '[]' from generate_series(0, 999) i;
insert into request_key (key, author, request, seed, holder, at, held_at) select lpad(i::text, 64, '0'), 'user ' || i % 20, repeat('0', 64), u('s' || i), u('h' || i), i, i from generate_series(0, 199999) i;
insert into alert select 'alert ' || i, '{}' from generate_series(0, 999) i;
insert into notice select u('notice' || i), 'receiver ' || i % 20, '{}', 0, i % 10, 0 from generate_series(0, 3999) i;
insert into calendar select 'default', 'cal' || i, 3, false, '{}', 0 from generate_series(0, 199) i;
insert into calendar_version select 'default', 'cal' || i, v, '{}', 0 from generate_series(0, 199) i, generate_series(1, 3) v;
-- All jobs use one calendar, and ten of them have not been brought to its newest version.
insert into calendar_use select u('job' || i), 'default', 'cal0', case when i < 10 then 2 else 3 end from generate_series(0, 1999) i;
insert into calendar_use select u('job' || i), 'default', 'cal' || 1 + i % 199, 3 from generate_series(0, 1999) i;
insert into capacity (name, ver, deleted, document, changed_at, units, level, filled_at)
select 'cap' || i, 3, false, '{}', 0, 100, 0, 0 from generate_series(0, 199) i;
insert into capacity_use select u('job' || i), 'cap' || i % 200, 1 from generate_series(0, 1999) i;
-- Ten thousand hold of one, fifty of each other, and what two thousand held counts no more.
insert into hold (run_id, no, token, capacity, units, session_id, since, until)
select 100 * i + 80, 0, 1, case when i <= 10000 then 'cap0' else 'cap' || 1 + i % 199 end, 1, i % 1000 + 1, i,
  case when i <= 2000 then 5 end from generate_series(0, 20000) i;
insert into backfill (id, job_uid, key, actor, from_at, to_at, mode, ordering, parallelism, reason, ver, state, settled,
  cursor_at, top, created_at, ended_at, partition)
select 3000001 + i, u('job' || i), 'key', 'me', 0, 5, 'all', 'oldest', 1, '', 1,
  case when i % 10 = 0 then 'running' else 'finished' end, 0, 0, 0, 0, case when i % 10 > 0 then 5 end, i % 64
from generate_series(0, 1999) i;
-- A hundred checks of each.
insert into backfill_check (run_id, round, backfill, state, at)
select i, 1, 3000001 + i % 2000, 'due', i from generate_series(1, 200000) i;
insert into node select i, 'host:' || i, case when i <= 3 then 10000000000 else 1 end from generate_series(1, 200) i;
insert into duty select 'trigger/' || i, 1, 1, 1 from generate_series(0, 63) i;
insert into duty select key, 1, 1, 1 from unnest(array['pool/big', 'pool/small', 'janitor']) key;
insert into session (id, ver, worker_name, worker_uid, boot_id, incarnation, pool, slots, handlers, draining, grant_seq,
  registered_at, expires_at, ended_at, ended_cause)
select i, case when i > 1000 then 2 else 1 end, 'w' || i, 'uid' || i % 5000, 'b', 'i' || i,
  case when i % 10 = 1 then 'small' else 'big' end, 100, '[]', false, 0, 0, 10000000000,
  case when i > 1000 then 5 end, case when i > 1000 then 'expired' end
from generate_series(1, 20000) i;
$$;

create function fill(first bigint, last bigint) returns void language sql as $$
insert into op (id, at, actor, result) select u('op' || i), i, 'node 1', null from generate_series(first / 5 + 1, last / 5) i;
insert into decision (job_uid, from_at, to_at, count, reason, reference)
select u('job' || case when i % 2 = 0 then 0 else i % 2000 end), i, i, 1, 'overlap', ''
from generate_series(first / 4 + 1, last / 4) i;
insert into run (id, job_uid, namespace, job_name, occasion, revision, pool, handler, rank, parallelism, parameters,
  counts_must_match, deadline, state, round, ver, total, open, succeeded, failed, cancelled, reason, digest,
  created_at, started_at, ended_at, partition, backfill, rerun_of, rerun, uses)
select i, u('job' || case when i % 2 = 0 then 0 else i % 2000 end), 'default', 'job', 'manual:' || i, 1,
  case when i / 100 % 10 = 0 then 'small' else 'big' end, 'sh', (i % 100 >= 85)::int, 8, '{}', false,
  case when i % 100 = 99 then i + 1000000000 end,
  case when i % 1000 = 7 then 'failed' when i % 100 < 80 then 'succeeded' when i % 100 < 85 then 'running' else 'scheduled' end,
  1, 1, 1, (i % 100 >= 80)::int, (i % 100 < 80)::int, 0, 0, '', '', i, i, case when i % 100 < 80 then i end, i % 64,
  case when i % 100 = 5 then 3000001 end, case when i % 100 = 6 then i end, case when i % 100 = 6 then 1 end,
  case when i % 1000 = 85 then '{"cap0":1}' end
from generate_series(first, last) i;
insert into shard (run_id, no, pool, descriptor, state, ver, token, attempt, used, takeovers, ready_at, session_id,
  grant_seq, timeout_at, digest, checkpoint_seq, checkpoint, done, rate_milli, waiting_on, started_at, ended_at, queue,
  turn, later)
select i, 0, case when i / 100 % 10 = 0 then 'small' else 'big' end, '"whole"',
  case when i % 100 < 80 then 'succeeded' when i % 100 < 85 then 'running' else 'scheduled' end,
  1, (i % 100 < 85)::int, (i % 100 < 85)::int, (i % 100 < 85)::int, 0,
  case when i % 100 < 90 then 0 else i + 9000000000000000 end,
  case when i % 100 between 80 and 84 then i / 100 % 1000 + 1 end, 0,
  case when i % 100 = 84 then i + 10000000000 end,
  '', 0, '', 0, 0, '', null, case when i % 100 < 80 then i end, 3048 + (i % 100 >= 85)::int,
  case when i % 2 = 0 then 0 else i % 2000 end, i % 100 >= 90
from generate_series(first, last) i;
insert into event (seq, entity, entity_id, run_id, ver, at, op, actor, kind, from_state, to_state, cause, data)
select i, 'shard', case when i % 10 < 2 then 7 else i end || '/0', case when i % 10 < 2 then 7 else i end,
  case when i % 10 = 0 then i / 10 + 1 when i % 10 = 1 then 0 else 1 end,
  i, u('op' || i / 5), 'node 1', 'attempt_ended', 'running', 'succeeded', 'succeeded', '{}'
from generate_series(first, last) i;
$$;

-- A pool of one run whose hundred thousand shards wait for a retry, and five runs after it that are ready.
create function fill_tired() returns void language sql as $$
insert into run (id, job_uid, namespace, job_name, occasion, revision, pool, handler, rank, parallelism, parameters,
  counts_must_match, state, round, ver, total, open, succeeded, failed, cancelled, reason, digest, created_at,
  started_at, partition)
select 2900000 + i, u('job1'), 'default', 'job1', 'manual:tired' || i, 1, 'tired', 'sh', 0, 8, '{}', false,
  'running', 1, 1, 1, 1, 0, 0, 0, '', '', i, i, 1
from generate_series(1, 6) i;
insert into shard (run_id, no, pool, descriptor, state, ver, token, attempt, used, takeovers, ready_at, grant_seq, digest,
  checkpoint_seq, checkpoint, done, rate_milli, waiting_on, queue, turn)
select 2900001, i, 'tired', '"whole"', 'retry', 2, 1, 1, 1, 0, i + 9000000000000000, 0, '', 0, '', 0, 0, '', 3048, 1
from generate_series(0, 99999) i
union all
select 2900000 + i, 0, 'tired', '"whole"', 'scheduled', 1, 0, 0, 0, 0, 0, 0, '', 0, '', 0, 0, '', 3048, 1
from generate_series(2, 6) i;
-- Ten thousand runs of which shards were asked for their slots ten times each.
insert into recall select 1 + i / 10, i % 10, 1, i % 1000, 5, i from generate_series(0, 99999) i;
-- A pool of a thousand lanes with a run each, the first of which has a hundred thousand.
insert into run (id, job_uid, namespace, job_name, occasion, revision, pool, handler, rank, parallelism, parameters,
  counts_must_match, state, round, ver, total, open, succeeded, failed, cancelled, reason, digest, created_at,
  started_at, partition)
select 2700000 + i, u('job1'), 'default', 'job1', 'manual:many' || i, 1, 'many', 'sh', 0, 8, '{}', false,
  'scheduled', 1, 1, 1, 1, 0, 0, 0, '', '', i, null, 1
from generate_series(1, 101000) i;
insert into shard (run_id, no, pool, descriptor, state, ver, token, attempt, used, takeovers, ready_at, grant_seq, digest,
  checkpoint_seq, checkpoint, done, rate_milli, waiting_on, queue, turn)
select 2700000 + i, 0, 'many', '"whole"', 'scheduled', 1, 0, 0, 0, 0, 0, 0, '', 0, '', 0, 0, '',
  (greatest(i - 100000, 0) << 12) + 3048, 1
from generate_series(1, 101000) i;
$$;

-- A pool in which a hundred thousand runs wait for next year, after them ten whose instant has come, and ten thousand
-- of another job that are ready.
create function fill_crowd() returns void language sql as $$
insert into run (id, job_uid, namespace, job_name, occasion, revision, pool, handler, rank, parallelism, parameters,
  counts_must_match, state, round, ver, total, open, succeeded, failed, cancelled, reason, digest, created_at,
  started_at, partition)
select 2500000 + i, u('job1'), 'default', 'job1', 'manual:crowd' || i, 1, 'crowd', 'sh', 0, 8, '{}', false,
  'scheduled', 1, 1, 1, 1, 0, 0, 0, '', '', i, null, 1
from generate_series(1, 110010) i;
insert into shard (run_id, no, pool, descriptor, state, ver, token, attempt, used, takeovers, ready_at, grant_seq, digest,
  checkpoint_seq, checkpoint, done, rate_milli, waiting_on, queue, turn, later)
select 2500000 + i, 0, 'crowd', '"whole"', 'scheduled', 1, 0, 0, 0, 0,
  case when i <= 100000 then i + 9000000000000000 else i end, 0, '', 0, '', 0, 0, '',
  3048, case when i <= 100010 then 1 else 2 end, i <= 100010
from generate_series(1, 110010) i;
$$;

-- As fill, with all indexes made anew afterwards.
create function fill_many(first bigint, last bigint) returns void language plpgsql as $$
declare made text[]; one record;
begin
  select array_agg(indexdef) into made from pg_indexes i
  where schemaname = current_schema
    and not exists (select from pg_constraint c where c.conindid = (i.schemaname || '.' || indexname)::regclass);
  for one in select indexname from pg_indexes i where indexdef = any(made) loop
    execute 'drop index ' || one.indexname;
  end loop;
  perform fill(first, last);
  perform fill_tired();
  perform fill_crowd();
  for i in 1 .. array_length(made, 1) loop
    execute made[i];
  end loop;
end
$$;
