-- hold_clock: time is held from now on, or not any more (?1), unless a step was accepted since ?2.
update meta set clock_held = ?1 where id = 1 and clock_accepts = ?2
