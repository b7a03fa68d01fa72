-- insert_shards: waiting shards, of any runs. One statement for many: a run may have 100,000.
insert into shard (run_id, no, pool, descriptor, state, ver, token, attempt, used, takeovers, ready_at, grant_seq,
  digest, checkpoint_seq, checkpoint, done, rate_milli, waiting_on, rank)
select i.run_id, i.no, i.pool, i.descriptor, 'scheduled', 1, 0, 0, 0, 0, i.ready_at, 0, '', 0, '', 0, 0, '', i.rank
from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[])
  i (run_id, pool, no, descriptor, ready_at, rank)
