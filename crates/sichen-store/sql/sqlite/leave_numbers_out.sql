-- leave_numbers_out: after a restore, so that no number of the lost tail is given to another thing.
update meta set last_id = last_id + ?1, last_event = last_event + ?1 where id = 1
