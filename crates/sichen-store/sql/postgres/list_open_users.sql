-- list_open_users: open runs that use capacity $1.
select id from run where live and uses is not null and uses::jsonb ->> $1::text is not null order by id limit $2
