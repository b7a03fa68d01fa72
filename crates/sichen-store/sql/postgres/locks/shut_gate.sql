-- shut_gate: the gate of a partition, alone. $1 says that it is a gate.
select pg_advisory_xact_lock($1::integer, $2::integer)
