-- delete_run: remove a closed run's row (its shards are gone already).
delete from run where id = $1 and not live
