-- update_meta: keep the clock mark; it never goes back.
update meta set clock_mark = $1 where id = 1 and clock_mark < $1
