-- forget_holds: what counts no more at $2 of these capacities is taken away.
delete from hold where until is not null and until <= $2 and capacity = any($1::text[])
