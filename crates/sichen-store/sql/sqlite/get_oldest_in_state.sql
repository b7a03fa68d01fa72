-- get_oldest_in_state: when the first run in state ?1 was written. Said as a range of (state, id), so that
-- its index alone gives the order.
select created_at from run where (state, id) > (?1, 0) and state <= ?1 order by state, id limit 1
