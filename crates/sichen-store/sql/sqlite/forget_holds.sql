-- forget_holds: what counts no more at ?2 of these capacities (a JSON array of names) is taken away.
delete from hold where until is not null and until <= ?2 and capacity in (select value from json_each(?1))
