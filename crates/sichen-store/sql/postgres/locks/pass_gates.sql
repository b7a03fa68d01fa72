-- pass_gates: the gates of partitions, ascending: beside others ($2), or alone where one of the jobs $3, which are
-- locked, is of it and its row does not count its runs. $1 says that it is a gate.
select case when g.alone then pg_advisory_xact_lock($1::integer, g.gate)
  else pg_advisory_xact_lock_shared($1::integer, g.gate) end
from (select gate, bool_or(alone) as alone from (
    select unnest($2::bigint[])::integer as gate, false as alone
    union all select j.partition::integer, true from job j where uid = any($3::uuid[]) and counting = 'never') every
  group by gate order by gate) g
