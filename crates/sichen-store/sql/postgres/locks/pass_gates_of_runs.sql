-- pass_gates_of_runs: the gates of runs' partitions, ascending, beside others. $1 says that it is a gate.
select pg_advisory_xact_lock_shared($1::integer, g.gate)
from (select distinct partition::integer as gate from run where id = any($2::bigint[]) order by 1) g
