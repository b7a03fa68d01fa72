-- count_failure: a run whose shards share a budget has had ?2 failed attempts in this round.
update run set failures = ?2
where id = ?1
