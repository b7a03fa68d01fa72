-- insert_shard: a waiting shard.
insert into shard (run_id, no, pool, descriptor, state, ver, token, attempt, used, takeovers, ready_at, grant_seq,
  digest, checkpoint_seq, checkpoint, done, rate_milli, waiting_on)
values (?1, ?2, ?3, ?4, 'scheduled', 1, 0, 0, 0, 0, ?5, 0, '', 0, '', 0, 0, '')
