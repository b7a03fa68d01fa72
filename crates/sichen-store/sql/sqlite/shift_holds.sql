-- shift_holds: ends of holds that have not come at ?2, later by ?1.
-- scans: hold
update hold set until = until + ?1 where until is not null and until >= ?2
