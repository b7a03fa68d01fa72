-- accept_clock: the clock's reading $1 is believed from now on, unless a step was accepted since $2.
-- Differs from sqlite/accept_clock.sql in the guard: there is one writer there.
update meta set clock_held = false, clock_accepts = clock_accepts + 1,
  clock_mark = greatest(clock_mark, $1)
where id = 1 and clock_accepts = $2
