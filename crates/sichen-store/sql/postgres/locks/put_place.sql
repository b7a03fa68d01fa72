-- put_place: where the database is now.
update meta set place = $1, timeline = $2 where id = 1
