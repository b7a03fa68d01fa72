-- insert_shards: waiting shards numbered from $3; $4 is an array of their descriptors.
-- One statement for many: a run may have 100,000.
insert into shard (run_id, no, pool, descriptor, state, ver, token, attempt, used, takeovers, ready_at, grant_seq,
  digest, checkpoint_seq, checkpoint, done, rate_milli, waiting_on)
select $1, $3 + (i.n - 1)::integer, $2, i.descriptor, 'scheduled', 1, 0, 0, 0, 0, $5, 0, '', 0, '', 0, 0, ''
from unnest($4::text[]) with ordinality i (descriptor, n)
