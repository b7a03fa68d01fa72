-- find_skip: the record of skipped instants that ends first at $2 or later.
select id, from_at from decision
where job_uid = $1 and to_at >= $2 and reason <> 'removed' and reason <> 'gap' order by to_at, from_at, id limit 1
