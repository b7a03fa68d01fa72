-- take_turn: what has no row to lock yet; $1 says what of, $2 which.
select pg_advisory_xact_lock($1::integer, hashtext($2))
