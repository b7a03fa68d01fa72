-- accept_clock: the clock's reading ?1 is believed from now on.
update meta set clock_held = 0, clock_accepts = clock_accepts + 1,
  clock_mark = max(clock_mark, ?1)
where id = 1
